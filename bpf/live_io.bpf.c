// SPDX-License-Identifier: GPL-2.0
/*
 * Block requests by the process that handed them in, with how long each took from issue to
 * completion, and packets by device. Requests end on any CPU: these sums are added up atomically, and
 * every window has keys of its own.
 */

/* Requests without data (flush) and passthrough are not counted. */
#define LIVE_OP_WRITE 1

static __always_inline void live_io(u32 who, u32 kind, u64 now, u64 bytes, u64 ns, bool timed)
{
	struct live_io_key key = { .who = who, .kind = kind, .window = now / cfg.window_ns };
	struct live_durations *durations = live_durations(&live_ios, &key);
	u32 bucket = live_bucket(ns);

	if (!durations)
		return;
	__sync_fetch_and_add(&durations->count, 1);
	__sync_fetch_and_add(&durations->amount, bytes);
	if (!timed)
		return;
	__sync_fetch_and_add(&durations->total_ns, ns);
	barrier_var(bucket);
	if (bucket < LIVE_BUCKETS)
		__sync_fetch_and_add(&durations->buckets[bucket], 1);
}

static __always_inline u32 live_tgid(void)
{
	return bpf_get_current_pid_tgid() >> 32;
}

/* A scheduler's queue, a full device, a write that is to be flushed: the kernel's thread issues later what
 * others asked for. Whose it is is known where it is handed in (the only argument since 5.11). */
SEC("tp_btf/block_bio_queue")
int BPF_PROG(live_block_queue, struct bio *bio)
{
	u64 key = (u64)bio;
	u32 tgid = live_tgid();

	if (cfg.empty || (bio->bi_opf & 0xff) > LIVE_OP_WRITE)
		return 0;
	bpf_map_update_elem(&live_bios, &key, &tgid, BPF_ANY);
	return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(live_block_issue, struct request *rq)
{
	struct live_request request = {};
	u32 op = rq->cmd_flags & 0xff;
	u64 key = (u64)rq, bio = (u64)rq->bio;
	u32 *asked;

	if (cfg.empty || op > LIVE_OP_WRITE)
		return 0;
	request.ns = bpf_ktime_get_ns();
	asked = bpf_map_lookup_elem(&live_bios, &bio);
	request.tgid = asked ? *asked : live_tgid();
	if (asked)
		bpf_map_delete_elem(&live_bios, &bio);
	request.kind = op;
	if (bpf_map_update_elem(&live_requests, &key, &request, BPF_ANY))
		__sync_fetch_and_add(&live_shared.no_room, 1);
	return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(live_block_complete, struct request *rq, int error, unsigned int bytes)
{
	struct live_request *request;
	u64 key = (u64)rq, now;

	if (cfg.empty)
		return 0;
	request = bpf_map_lookup_elem(&live_requests, &key);
	/* In parts: the last one is the end. */
	if (!request || bytes < rq->__data_len)
		return 0;
	now = bpf_ktime_get_ns();
	live_io(request->tgid, request->kind, now, bytes, now - request->ns, true);
	bpf_map_delete_elem(&live_requests, &key);
	return 0;
}

SEC("tp_btf/net_dev_xmit")
int BPF_PROG(live_net_xmit, struct sk_buff *skb, int code, struct net_device *dev, unsigned int bytes)
{
	if (!cfg.empty)
		live_io(BPF_CORE_READ(dev, ifindex), LIVE_XMIT, bpf_ktime_get_ns(), bytes, 0, false);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(live_net_receive, struct sk_buff *skb)
{
	if (!cfg.empty)
		live_io(BPF_CORE_READ(skb, dev, ifindex), LIVE_RECEIVE, bpf_ktime_get_ns(), skb->len, 0, false);
	return 0;
}
