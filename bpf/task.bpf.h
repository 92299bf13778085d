/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a task_struct tells, across kernels.
 *
 * A thread's state when it leaves is told as the tracepoint prints it, so that all collectors
 * tell the same (__trace_sched_switch_state, __task_state_index).
 */
#ifndef TRANSECT_TASK_H
#define TRANSECT_TASK_H

#define TASK_REPORT 0x7f
#define TASK_DEAD 0x80
#define TASK_IDLE 0x402
#define TASK_RTLOCK_WAIT 0x1000
#define TASK_FROZEN 0x8000

enum { STATE_D = 2, STATE_I = 8, STATE_PREEMPTED = 15 };

static __always_inline u32 state_code(struct task_struct *prev, u32 state)
{
	u32 report;

	if (!state)
		return 0;
	if ((state & TASK_IDLE) == TASK_IDLE)
		return STATE_I;
	if (state & (TASK_RTLOCK_WAIT | TASK_FROZEN))
		return STATE_D;
	/* A thread on its last way out: whether somebody will wait for it is in exit_state only. */
	report = (state & TASK_DEAD ? state | prev->exit_state : state) & TASK_REPORT;
	/* Index of the highest bit, from 1: S 1, D 2, T 3, t 4, X 5, Z 6, P 7. */
	if (report >> 4)
		return report >> 6 ? 7 : report >> 5 ? 6 : 5;
	return report >> 3 ? 4 : report >> 2 ? 3 : report >> 1 ? 2 : report;
}

/* x86 has the CPU in thread_info since 5.16, in task_struct before. */
static __always_inline u32 task_cpu(struct task_struct *task)
{
	if (bpf_core_field_exists(task->thread_info.cpu))
		return task->thread_info.cpu;
	return BPF_CORE_READ((struct task_struct___cpu *)task, cpu);
}

/* The state as fourth argument came with 5.18. */
static __always_inline u32 left_state(unsigned long long *ctx, struct task_struct *prev)
{
	if (cfg.switch_has_state)
		return (u32)ctx[3];
	if (bpf_core_field_exists(prev->__state))
		return prev->__state;
	return BPF_CORE_READ((struct task_struct___state *)prev, state);
}

/* Queued, and not only because its removal is delayed: it has not slept, or is awake already. */
static __always_inline bool is_queued(struct task_struct *task)
{
	if (!task->on_rq)
		return false;
	return !bpf_core_field_exists(task->se.sched_delayed) || !task->se.sched_delayed;
}

/*
 * A thread that still has its CPU and is still queued has not slept yet, and will not
 * (ttwu_runnable, kernel/sched/core.c): it just goes on, which is no wakeup. ftrace's stream tells
 * by the sched_wakeup that follows; this spares one and the record as well. A thread on its way
 * out is not queued any more, or its removal is only delayed.
 */
static __always_inline bool goes_on(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) && task->on_cpu && is_queued(task);
}

#endif
