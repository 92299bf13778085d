/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which packet it is: a flow, and what tells its packets apart. Both are of what is in the packet, so they are the
 * same wherever it passes unchanged: in the guest that sends it, on its host, in the guest that gets it.
 */
#ifndef TRANSECT_PACKET_H
#define TRANSECT_PACKET_H

#define IPV4 0x0008 /* ETH_P_IP and ETH_P_IPV6, in the packet's byte order */
#define IPV6 0xdd86
#define TCP 6
#define FRAGMENT 0xff1f /* bits of a fragment's place, in the packet's byte order */

struct packet {
	u32 flow;
	u32 seq;
};

static __always_inline u64 packet_mix(u64 hash, u64 value)
{
	hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 29;
}

/* What is behind the addresses: ports, and TCP's sequence number or a hash of what is in the packet's first bytes. */
static __always_inline void packet_ports(struct packet *packet, const u8 *at, u64 hash, u32 protocol, u64 number)
{
	u8 head[16] = {};

	bpf_probe_read_kernel(head, sizeof(head), at);
	packet->flow = packet_mix(hash, *(u32 *)head | (u64)protocol << 32) >> 32;
	if (protocol == TCP)
		packet->seq = __builtin_bswap32(*(u32 *)(head + 4));
	else
		packet->seq = packet_mix(packet_mix(number, *(u16 *)(head + 4)), *(u64 *)(head + 8)) >> 32;
}

/* `at` is the header behind that of the link. False for what is neither IPv4 nor IPv6. */
static __always_inline bool packet_of(struct packet *packet, struct sk_buff *skb, const u8 *at)
{
	u32 protocol = BPF_CORE_READ(skb, protocol);
	u64 header[5] = {}, hash;

	if (protocol == IPV4) {
		u8 *ip = (u8 *)header;
		u32 length;

		bpf_probe_read_kernel(header, 24, at);
		hash = packet_mix(packet_mix(IPV4, *(u32 *)(ip + 12)), *(u32 *)(ip + 16));
		length = (ip[0] & 15) * 4;
		/* All fragments but the first have no ports. */
		if (*(u16 *)(ip + 6) & FRAGMENT) {
			packet->flow = packet_mix(hash, (u64)ip[9] << 32) >> 32;
			packet->seq = *(u32 *)(ip + 4);
			return true;
		}
		packet_ports(packet, at + length, hash, ip[9], *(u16 *)(ip + 4));
		return true;
	}
	if (protocol == IPV6) {
		bpf_probe_read_kernel(header, 40, at);
		hash = packet_mix(packet_mix(IPV6, header[1]), header[2]);
		hash = packet_mix(packet_mix(hash, header[3]), header[4]);
		packet_ports(packet, at + 40, hash, ((u8 *)header)[6], 0);
		return true;
	}
	return false;
}

#endif
