// SPDX-License-Identifier: GPL-2.0
/*
 * Who has the CPU and who waits for it (include/trace/events/sched.h, task.h).
 *
 * A thread's state when it leaves is written as the tracepoint prints it, so that both collectors
 * tell the same (__trace_sched_switch_state, __task_state_index).
 */

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

SEC("tp_btf/sched_switch")
int BPF_PROG(sched_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 state;

	if (cfg.special) {
		if (is_empty())
			return 0;
		if (filter_is_on() && !filter_passes(prev, prev->pid, prev->tgid) &&
		    !filter_passes(next, next->pid, next->tgid))
			return 0;
	}
	state = preempt ? STATE_PREEMPTED : state_code(prev, left_state(ctx, prev));
	return log_switch(prev->pid, prev, next->pid, next->prio, state);
}

/*
 * A thread that still has its CPU and is still queued has not slept yet, and will not
 * (ttwu_runnable, kernel/sched/core.c): it just goes on, which is no wakeup. ftrace's stream tells
 * by the sched_wakeup that follows; this spares one and the record as well. A thread on its way
 * out is not queued any more, or its removal is only delayed.
 */
static __always_inline bool goes_on(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->on_cpu) || !task->on_cpu || !task->on_rq)
		return false;
	return !bpf_core_field_exists(task->se.sched_delayed) || !task->se.sched_delayed;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	if (!wanted(task) || goes_on(task))
		return 0;
	return log_write(WAKING, task->pid | (u64)(task_cpu(task) & 0xfff) << 22);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(sched_wakeup_new, struct task_struct *task)
{
	if (!wanted(task))
		return 0;
	return log_write(WAKEUP_NEW, task->pid | (u64)(task_cpu(task) & 0xfff) << 22);
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(sched_migrate_task, struct task_struct *task, int dest_cpu)
{
	if (!wanted(task))
		return 0;
	return log_write2(MIGRATE, task->pid | (u64)(dest_cpu & 0xfff) << 22, task_cpu(task));
}

/* The arguments are the parent and the child; fork, vfork, clone alike. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(sched_process_fork, struct task_struct *parent, struct task_struct *child)
{
	if (!wanted(parent))
		return 0;
	return log_write2(FORK, child->pid, (u32)child->tgid | (u64)parent->pid << 32);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(sched_process_exec, struct task_struct *task, int old_tid)
{
	struct log *log;
	u64 ns;

	if (!wanted(task))
		return 0;
	log = log_enter();
	if (!log)
		return 0;
	ns = log_clock_ns();
	if (log->pending_w0)
		log_flush(log);
	if (log->current != (u32)old_tid)
		log_tell_current(log, ns, old_tid);
	/* A thread that is not the leader takes the leader's tid: no switch says so. */
	if (log_emit(log, ns, 0, 1, 2, WORD0(EXEC, task->pid), (u32)old_tid, 0))
		log->current = task->pid;
	log_leave(log);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(sched_process_exit, struct task_struct *task)
{
	if (!wanted(task))
		return 0;
	return log_write(EXIT, task->pid);
}

/* Called before the name is changed: the new one is the argument. */
SEC("tp_btf/task_rename")
int BPF_PROG(task_rename, struct task_struct *task, const char *comm)
{
	u64 name[2] = {};

	if (!wanted(task))
		return 0;
	bpf_probe_read_kernel_str(name, sizeof(name), comm);
	return log_write3(NAME, task->pid, name[0], name[1]);
}
