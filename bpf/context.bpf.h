/* SPDX-License-Identifier: GPL-2.0 */
/*
 * In which context an event comes: the preemption count of the CPU it comes on, read as
 * include/linux/preempt.h has it and as ftrace does for common_flags (kernel/trace/trace.c,
 * tracing_gen_ctx_irq_test).
 *
 * arm64 has the count in the task. x86 has it in a per-CPU variable. A typed ksym for it asks for an
 * address in kallsyms, which has no variables without CONFIG_KALLSYMS_ALL; so we go from a per-CPU
 * variable of the same CPU that the kernel's own pointers lead to, its run queue, by the distance of
 * the two, which BTF tells in any kernel that has one. The loader looks the distance up, and has
 * find_count look up every CPU's address once.
 */
#ifndef TRANSECT_CONTEXT_H
#define TRANSECT_CONTEXT_H

#define SOFTIRQ_SERVED 0x00000100u /* of the softirqs' bits: off for bottom halves is counted in steps of 0x200 */
#define HARDIRQ_BITS 0x000f0000u
#define NMI_BITS 0x00f00000u

enum context { CONTEXT_TASK = 0, CONTEXT_SOFTIRQ = 1, CONTEXT_IRQ = 2, CONTEXT_NMI = 3, CONTEXT_UNKNOWN = 4 };

/* Where each CPU has its count; 0: not known. Written once, before any program runs. */
u64 counts_at[MAX_CPUS] SEC(".bss.counts") = {};

static __always_inline u32 context_of_count(u32 count)
{
	if (count & NMI_BITS)
		return CONTEXT_NMI;
	if (count & HARDIRQ_BITS)
		return CONTEXT_IRQ;
	return count & SOFTIRQ_SERVED ? CONTEXT_SOFTIRQ : CONTEXT_TASK;
}

/* Since 6.2: memory at any address as a type of the kernel's. */
extern void *bpf_rdonly_cast(const void *memory, u32 type) __ksym __weak;

/* A plain load where the kernel lets us have one, which is much cheaper; for it, the count is the member of some
 * structure that is an int. */
static __always_inline bool count_at(u64 at, u32 *count)
{
	struct rq *rq = NULL;

	if (!bpf_ksym_exists(bpf_rdonly_cast))
		return !bpf_probe_read_kernel(count, sizeof(*count), (void *)at);
	rq = bpf_rdonly_cast((void *)(at - bpf_core_field_offset(rq->cpu)), bpf_core_type_id_kernel(struct rq));
	*count = rq->cpu;
	return true;
}

static __always_inline u32 context_here(void)
{
	struct task_struct *task = NULL;
	u32 count = 0;
	u64 at;

	if (bpf_core_field_exists(task->thread_info.preempt.count)) {
		task = bpf_get_current_task_btf();
		count = task->thread_info.preempt.count;
	} else {
		if (!cfg.count_is_known)
			return CONTEXT_UNKNOWN;
		at = counts_at[bpf_get_smp_processor_id() & (MAX_CPUS - 1)];
		if (!at || !count_at(at, &count))
			return CONTEXT_UNKNOWN;
	}
	/* PREEMPT_RT counts softirqs in the task. */
	if (bpf_core_field_exists(task->softirq_disable_cnt)) {
		task = bpf_get_current_task_btf();
		count |= task->softirq_disable_cnt & SOFTIRQ_SERVED;
	}
	return context_of_count(count);
}

/* Called by the loader for each CPU, before anything is attached. Returns whether its count has been found:
 * not if the run queue on the way is not that CPU's own. */
struct find {
	s64 distance; /* from the run queue */
	u32 cpu;
	u32 spare;
};

SEC("syscall")
int find_count(struct find *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 cpu = ctx->cpu & (MAX_CPUS - 1);
	struct cfs_rq **queues = NULL, *queue = NULL;
	struct rq *rq;

	if (!bpf_core_field_exists(task->sched_task_group) || !bpf_core_field_exists(queue->rq))
		return 0;
	queues = BPF_CORE_READ(task, sched_task_group, cfs_rq);
	if (!queues || bpf_probe_read_kernel(&queue, sizeof(queue), &queues[cpu]) || !queue)
		return 0;
	rq = BPF_CORE_READ(queue, rq);
	if (!rq || !bpf_core_field_exists(rq->cpu) || (u32)BPF_CORE_READ(rq, cpu) != cpu)
		return 0;
	counts_at[cpu] = (u64)rq + ctx->distance;
	return 1;
}

#endif
