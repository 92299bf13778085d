// SPDX-License-Identifier: GPL-2.0
/*
 * Packets handed to a device and taken from one (include/trace/events/net.h). A device is named
 * once per chunk, before its first packet there.
 */

#define IFINDEX_MAX 0x3fff /* 14 bits in a record: at least that */
#define SKB_MASK ((1ull << 56) - 1)

static __always_inline u64 net_number(unsigned long long *ctx)
{
	u64 skb = 0;

	/* As a number: the verifier allows no arithmetic with the pointer itself. */
	bpf_probe_read_kernel(&skb, sizeof(skb), &ctx[0]);
	return skb;
}

static __always_inline int net_packet(unsigned long long *ctx, struct sk_buff *skb, const u8 *header, u32 sent,
				      struct behind behind)
{
	struct packet packet = {};

	if (!packet_of(&packet, skb, header))
		return 0;
	log_write_event(OTHER, OTHER, 3, OTHER_NET_PACKET | sent << WHAT_BITS, net_number(ctx),
			packet.flow | (u64)packet.seq << 32, behind);
	return 0;
}

static __always_inline int net_record(u32 kind, unsigned long long *ctx, u32 bytes, struct net_device *dev, u32 code,
				      struct behind behind)
{
	u32 ifindex = BPF_CORE_READ(dev, ifindex);
	u64 skb = net_number(ctx), name[2] = {};

	bpf_core_read(name, sizeof(name), &dev->name);
	if (ifindex > IFINDEX_MAX) {
		ifindex = IFINDEX_MAX;
		log_saturated();
	}
	if (bytes > 0xfffff) {
		bytes = 0xfffff;
		log_saturated();
	}
	return log_packet(kind, ifindex, bytes | (u64)ifindex << 20, (skb & SKB_MASK) | (u64)code << 56, name[0], name[1],
			  behind);
}

SEC("tp_btf/net_dev_xmit")
int BPF_PROG(net_dev_xmit, struct sk_buff *skb, int code, struct net_device *dev, unsigned int bytes)
{
	if (!wanted_here())
		return 0;
	return net_record(NET_XMIT, ctx, bytes, dev, code < 0 || code > 255 ? 255 : code, nothing());
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb)
{
	if (!wanted_here())
		return 0;
	net_record(NET_RECEIVE, ctx, skb->len, skb->dev, 0, stack_here(ctx, STACK_RECEIVE, 0));
	/* The kernel notes where the header is only after this (__netif_receive_skb_core). */
	return cfg.causes ? net_packet(ctx, skb, BPF_CORE_READ(skb, data), 0, nothing()) : 0;
}

/* Before the driver has it: after net_dev_xmit it may be gone. */
SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(net_dev_start_xmit, struct sk_buff *skb)
{
	if (!wanted_here())
		return 0;
	return net_packet(ctx, skb, BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header), 1,
			  stack_here(ctx, STACK_TRANSMIT, 0));
}
