// SPDX-License-Identifier: GPL-2.0
/* Who has the CPU and who waits for it (include/trace/events/sched.h, task.h). */

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

SEC("tp_btf/sched_waking")
int BPF_PROG(sched_waking, struct task_struct *task)
{
	struct behind behind = nothing();
	u32 context;

	if (!wanted(task) || goes_on(task))
		return 0;
	context = context_here();
	if (context == CONTEXT_UNKNOWN)
		return log_write(WAKING, task->pid | (u64)(task_cpu(task) & 0xfff) << 22);
	if (context == CONTEXT_TASK && stack_is_kick())
		behind = stack_here(ctx, STACK_WAKE, task->pid);
	log_write_event(WAKING_IN, WAKING_IN, 1,
			task->pid | (u64)(task_cpu(task) & (MAX_CPUS - 1)) << 22 | (u64)context << 32, 0, 0, behind);
	return 0;
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
	/* clone3(CLONE_INTO_CGROUP): the child is not where its parent is. */
	if (cfg.filter_cgroup && !filter_passes(child, child->pid, child->tgid))
		filter_note_moved(child->pid);
	return log_write2(FORK, child->pid, (u32)child->tgid | (u64)parent->pid << 32);
}

/* With a filter by cgroup only (include/trace/events/cgroup.h). */
SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(cgroup_attach_task, struct cgroup *group, const char *path, struct task_struct *task)
{
	filter_note_moved(task->pid);
	return 0;
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
