// SPDX-License-Identifier: GPL-2.0
/*
 * Packets handed to a device and taken from one (include/trace/events/net.h). A device is named
 * once, with the first packet it has.
 */

#define DEVICES 16384 /* ifindex has 14 bits in a record */
#define SKB_MASK ((1ull << 56) - 1)

/* One bit per device whose DEVICE_NAME has been written. */
u64 named_devices[DEVICES / 64] SEC(".bss.devices") = {};

static __noinline int net_name(struct net_device *dev, u32 ifindex)
{
	u64 name[2] = {};

	named_devices[ifindex / 64 & (DEVICES / 64 - 1)] |= 1ull << (ifindex & 63);
	bpf_core_read(name, sizeof(name), &dev->name);
	return log_write3(DEVICE_NAME, ifindex, name[0], name[1]);
}

static __always_inline int net_record(u32 kind, unsigned long long *ctx, u32 bytes, struct net_device *dev, u32 code)
{
	u32 ifindex = BPF_CORE_READ(dev, ifindex) & (DEVICES - 1);
	u64 skb = 0;

	/* As a number: the verifier allows no arithmetic with the pointer itself. */
	bpf_probe_read_kernel(&skb, sizeof(skb), &ctx[0]);

	if (!(named_devices[ifindex / 64 & (DEVICES / 64 - 1)] & 1ull << (ifindex & 63)))
		net_name(dev, ifindex);
	if (bytes > 0xfffff)
		bytes = 0xfffff;
	return log_write2(kind, bytes | (u64)ifindex << 20, (skb & SKB_MASK) | (u64)code << 56);
}

SEC("tp_btf/net_dev_xmit")
int BPF_PROG(net_dev_xmit, struct sk_buff *skb, int code, struct net_device *dev, unsigned int bytes)
{
	if (!wanted_here())
		return 0;
	return net_record(NET_XMIT, ctx, bytes, dev, code < 0 || code > 255 ? 255 : code);
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(netif_receive_skb, struct sk_buff *skb)
{
	if (!wanted_here())
		return 0;
	return net_record(NET_RECEIVE, ctx, skb->len, skb->dev, 0);
}
