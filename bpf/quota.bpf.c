// SPDX-License-Identifier: GPL-2.0
/*
 * Control groups whose quota of CPU time has ended (kernel/sched/fair.c). There is no tracepoint: these are programs
 * behind the functions themselves. throttle_cfs_rq may find new quota and do nothing, so the run queue is asked.
 */

/* A field of its own until 6.17, one bit since. */
static __always_inline bool is_throttled(struct cfs_rq *queue)
{
	struct cfs_rq___quota *quota = (void *)queue;

	return BPF_CORE_READ_BITFIELD_PROBED(quota, throttled);
}

static __always_inline int quota_record(u32 what, struct cfs_rq *queue)
{
	struct cfs_rq___quota *quota = (void *)queue;
	struct task_group___quota *group = (void *)BPF_CORE_READ(quota, tg);
	u64 id = BPF_CORE_READ(group, css.cgroup, kn, id);
	u32 cpu = BPF_CORE_READ(quota, rq, cpu);

	return log_other(what, cpu & 0xfff, id, 0);
}

SEC("fexit/throttle_cfs_rq")
int BPF_PROG(throttle_cfs_rq, struct cfs_rq *queue)
{
	if (is_empty() || !is_throttled(queue))
		return 0;
	return quota_record(OTHER_THROTTLE, queue);
}

SEC("fexit/unthrottle_cfs_rq")
int BPF_PROG(unthrottle_cfs_rq, struct cfs_rq *queue)
{
	if (is_empty() || is_throttled(queue))
		return 0;
	return quota_record(OTHER_UNTHROTTLE, queue);
}
