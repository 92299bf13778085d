// SPDX-License-Identifier: GPL-2.0
/*
 * Counting in the kernel instead of recording: histograms that the loader reads at the end. Costs
 * less than records, and nothing per event afterwards.
 *
 * Exits: from kvm_exit to the kvm_entry of the same vCPU on the same CPU, by VM, vCPU and reason.
 * Run queue: from sched_waking, sched_wakeup_new or leaving a CPU while runnable to being switched in, by
 * process. What of such a wait was not seen (some kernels trace nothing while certain threads are
 * current) leaves it uncounted: each switch to a thread is one wait, in a histogram or in `uncounted`.
 */

#define BUCKETS 40 /* by powers of two of ns: up to 18 minutes */

struct histogram {
	u64 count;
	u64 total_ns;
	u64 buckets[BUCKETS];
};

struct exit_key {
	u32 tgid;
	u32 vcpu;
	u32 reason;
};

/* The last exit of each CPU. Interrupts do not exit or enter: nothing else writes it. */
struct last_exit {
	u64 ns;
	u32 vcpu;
	u32 reason;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct exit_key);
	__type(value, struct histogram);
} exit_histograms SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct last_exit);
} last_exits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_HASH);
	__uint(max_entries, 8192);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, u32);
	__type(value, struct histogram);
} queue_histograms SEC(".maps");

/* When each thread began to wait for a CPU; gone with the thread. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, u64);
} waiting_since SEC(".maps");

/* Whom the last switch on each CPU gave it to, by address. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} switched_to SEC(".maps");

/* What found no room in a histogram map, and waits whose beginning or end was not seen. */
u64 uncounted SEC(".bss.uncounted") = 0;

static __always_inline u32 bucket_of(u64 ns)
{
	u32 bucket = 0;

	for (u32 shift = 32; shift; shift >>= 1) {
		if (ns >> shift) {
			ns >>= shift;
			bucket += shift;
		}
	}
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static __always_inline void count_into(void *map, const void *key, u64 ns)
{
	struct histogram *histogram = bpf_map_lookup_elem(map, key);
	u32 bucket = bucket_of(ns);

	if (!histogram) {
		static const struct histogram none = {};

		bpf_map_update_elem(map, key, &none, BPF_NOEXIST);
		histogram = bpf_map_lookup_elem(map, key);
		if (!histogram) {
			__sync_fetch_and_add(&uncounted, 1);
			return;
		}
	}
	histogram->count++;
	histogram->total_ns += ns;
	barrier_var(bucket);
	if (bucket < BUCKETS)
		histogram->buckets[bucket]++;
}

static __always_inline int aggregate_exit(u32 reason, u32 vcpu)
{
	u32 zero = 0;
	struct last_exit *last = bpf_map_lookup_elem(&last_exits, &zero);

	if (!last)
		return 0;
	last->vcpu = vcpu;
	last->reason = reason;
	last->ns = log_clock_ns();
	return 0;
}

SEC("tp_btf/kvm_exit")
int BPF_PROG(aggregate_exit_svm, struct kvm_vcpu *vcpu)
{
	u32 reason = 0;
	struct vmcb *vmcb;

	if (!wanted_here())
		return 0;
	vmcb = BPF_CORE_READ((struct vcpu_svm *)vcpu, vmcb);
	bpf_core_read(&reason, sizeof(reason), &vmcb->control.exit_code);
	return aggregate_exit(reason, vcpu->vcpu_id);
}

SEC("tp/kvm/kvm_exit")
int aggregate_exit_classic(struct trace_event_raw_kvm_exit *ctx)
{
	if (!wanted_here())
		return 0;
	return aggregate_exit(ctx->exit_reason, ctx->vcpu_id);
}

SEC("tp_btf/kvm_entry")
int BPF_PROG(aggregate_entry, struct kvm_vcpu *vcpu)
{
	u32 zero = 0;
	struct last_exit *last = bpf_map_lookup_elem(&last_exits, &zero);
	struct exit_key key = {};

	if (!last || !last->ns || last->vcpu != vcpu->vcpu_id || !wanted_here())
		return 0;
	key.tgid = bpf_get_current_pid_tgid() >> 32;
	key.vcpu = last->vcpu;
	key.reason = last->reason;
	count_into(&exit_histograms, &key, log_clock_ns() - last->ns);
	last->ns = 0;
	return 0;
}

/* Where there is no room for it, the way in finds no beginning. */
static __always_inline int aggregate_wait(struct task_struct *task)
{
	u64 *since = bpf_task_storage_get(&waiting_since, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (since)
		*since = log_clock_ns();
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(aggregate_waking, struct task_struct *task)
{
	return wanted(task) && !goes_on(task) ? aggregate_wait(task) : 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(aggregate_wakeup_new, struct task_struct *task)
{
	return wanted(task) ? aggregate_wait(task) : 0;
}

/* The end of a wait that was not seen: it is over all the same. */
static __always_inline void aggregate_unseen(struct task_struct *task)
{
	u64 *since = bpf_task_storage_get(&waiting_since, task, 0, 0);

	if (since)
		*since = 0;
	__sync_fetch_and_add(&uncounted, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(aggregate_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 tgid = next->tgid, zero = 0;
	u64 *since, *to = bpf_map_lookup_elem(&switched_to, &zero);

	if (!to)
		return 0;
	if (prev->pid && wanted_itself(prev)) {
		/* Before the first switch here it had the CPU already. */
		if (*to && *to != (u64)prev)
			aggregate_unseen(prev);
		/* The one who leaves without sleeping waits from here on. */
		if (is_queued(prev))
			aggregate_wait(prev);
	}
	*to = (u64)next;
	if (!next->pid)
		return 0;
	since = bpf_task_storage_get(&waiting_since, next, 0, 0);
	if (since && *since) {
		count_into(&queue_histograms, &tgid, log_clock_ns() - *since);
		*since = 0;
	} else if (wanted_itself(next)) {
		__sync_fetch_and_add(&uncounted, 1);
	}
	return 0;
}
