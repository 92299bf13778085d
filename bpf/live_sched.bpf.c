// SPDX-License-Identifier: GPL-2.0
/*
 * Threads: running, preempted, waking, asleep (see crates/engine/src/states/thread.rs, whose states
 * these are), and who was in whose way.
 *
 * Some kernels do not trace every switch (into and out of the idle thread). Where an event contradicts
 * what the ones before had led to, the time that is in doubt is nobody's (LIVE_NONE).
 */

enum { CODE_RUNNABLE = 0, CODE_DEAD = 5, CODE_ZOMBIE = 6 };

/* Does the guest halt? Its last exit says so. */
static __always_inline bool live_halts(struct live_actor *actor)
{
	return actor->mode == LIVE_EXIT && (actor->exit_reason == cfg.halts[0] || actor->exit_reason == cfg.halts[1]);
}

static __always_inline void live_slice(struct live_sums *sums, u64 ns)
{
	sums->slices++;
	sums->slices_ns += ns;
	if (!sums->slice_min_ns || ns < sums->slice_min_ns)
		sums->slice_min_ns = ns;
	if (ns > sums->slice_max_ns)
		sums->slice_max_ns = ns;
}

/* The last event on a CPU, its switches and wakings taken together. */
static __always_inline u64 live_seen(struct live_cpu *cpu)
{
	u64 switched = cpu->since[cpu->at & (LIVE_STAYS - 1)];

	return (s64)(switched - cpu->seen) > 0 ? switched : cpu->seen;
}

/* Its way in was not seen: since this CPU's last event it may have been here. */
static __noinline int live_was_not_here(struct live_actor *actor, u64 seen)
{
	live_add(actor, live_window(actor, seen), seen);
	actor->state = LIVE_NONE;
	actor->woken = 0;
	return 0;
}

static __always_inline void live_out(struct live_actor *actor, struct live_cpu *cpu, u32 code, u64 now)
{
	u64 in_since = actor->in_since;
	struct live_sums *sums;

	if (actor->state != LIVE_RUNNING && (actor->state != LIVE_NONE || actor->woken))
		live_was_not_here(actor, live_seen(cpu));
	sums = live_window(actor, now);
	if (actor->guest_since) {
		/* kvm_exit comes late sometimes (SVM): whoever is switched out has left the guest. */
		if ((s64)(now - actor->guest_since) > 0)
			sums->guest_ns += now - actor->guest_since;
		actor->guest_since = 0;
		actor->mode = LIVE_EXIT;
		actor->exit_reason = ~0u;
	}
	if ((s64)(now - actor->since) > 0) {
		/* It runs, or nobody knows what it does. */
		sums->ns[actor->state & 7] += now - actor->since;
		actor->since = now;
	}
	if (in_since && (s64)(now - in_since) > 0)
		actor->on_cpu_ns += now - in_since;
	actor->in_since = 0;
	actor->out_since = now;
	if (code == CODE_RUNNABLE || code == STATE_PREEMPTED) {
		if (in_since && (s64)(now - in_since) > 0)
			live_slice(sums, now - in_since);
		actor->state = LIVE_PREEMPTED;
		return;
	}
	if (code == CODE_DEAD || code == CODE_ZOMBIE) {
		actor->state = LIVE_GONE;
		return;
	}
	if (actor->mode == LIVE_NO_KVM) {
		actor->state = LIVE_ASLEEP;
		return;
	}
	actor->asleep_from = now;
	actor->asleep_to = 0;
	actor->state = live_halts(actor) ? LIVE_HALTED : LIVE_ASLEEP;
}

static __always_inline void live_in(struct live_actor *actor, u32 slot, struct live_cpu *cpu, u32 id, u64 now)
{
	u32 state = actor->state;
	/* What it waits since: out, unless it slept from then on. */
	u64 woken, wait = actor->out_since;
	struct live_sums *sums;

	/* Its way out was not seen. */
	if (state == LIVE_RUNNING)
		actor->state = LIVE_NONE;
	sums = live_window(actor, now);
	woken = actor->woken;
	if (woken && live_sleeps(state)) {
		actor->woken = 0;
		if ((s64)(woken - wait) > 0)
			wait = woken;
		if ((s64)(woken - actor->since) > 0) {
			sums->ns[state & 7] += woken - actor->since;
			actor->since = woken;
		}
		if (actor->mode != LIVE_NO_KVM)
			actor->asleep_to = wait;
		state = actor->state = LIVE_WAKING;
	} else if (woken) {
		actor->woken = 0;
	} else if ((state == LIVE_ASLEEP || state == LIVE_HALTED) && !live_is_idle(slot)) {
		/* Nobody wakes by himself: how long it waited is not known. */
		__sync_fetch_and_add(&live_shared.unwoken, 1);
	}
	if ((state == LIVE_PREEMPTED || state == LIVE_WAKING) && !live_is_idle(slot)) {
		u64 ns = now - wait;

		if ((s64)ns < 0)
			ns = 0;
		if (ns > sums->wait_max_ns)
			sums->wait_max_ns = ns;
		live_waited(slot, actor->window, ns);
		live_blame(sums, cpu, actor->since, actor->queue_since, now);
	}
	if ((s64)(now - actor->since) > 0) {
		sums->ns[actor->state & 7] += now - actor->since;
		actor->since = now;
	}
	actor->state = LIVE_RUNNING;
	actor->in_since = now;
	actor->cpu = id;
	sums->executions++;
}

/* Another thread has this CPU: its idle thread does not, of which nothing may have been seen yet. */
static __always_inline void live_busy(u32 id, u64 now)
{
	struct live_actor *idle = live_at(id);

	if (!idle || idle->state != LIVE_NONE)
		return;
	live_add(idle, live_window(idle, now), now);
	idle->state = LIVE_PREEMPTED;
}

/* Not who came to the CPU last: a switch between them was not seen, and nobody knows who had it since. */
static __noinline u32 live_other_leaves(struct task_struct *prev, struct live_cpu *cpu, u32 id, u64 now)
{
	u32 at = cpu->at & (LIVE_STAYS - 1), slot;

	if (prev->pid)
		live_busy(id, now);
	if (!live_actor(prev, id, LIVE_RUNNING, now, &slot))
		slot = LIVE_NOBODY;
	if (cpu->slot[at] != slot)
		cpu->slot[at] = LIVE_NOBODY;
	return slot;
}

static __always_inline void live_stays(struct live_cpu *cpu, u32 slot, u64 since)
{
	u32 at = cpu->at + 1;

	cpu->slot[at & (LIVE_STAYS - 1)] = slot;
	cpu->since[at & (LIVE_STAYS - 1)] = since;
	live_ordered(&cpu->at);
}

/* Somebody else has this CPU than who came to it last: a switch was not seen, some time since the CPU's
 * last event. Who has it cannot leave meanwhile; but may be in the midst of rolling, interrupted. */
static __noinline int live_other_is_here(struct live_cpu *cpu, u64 now)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 slot, id = bpf_get_smp_processor_id();
	struct live_actor *actor;
	u64 seen = live_seen(cpu);

	if ((s64)(now - seen) < 0)
		return 0;
	if (task->pid)
		live_busy(id, now);
	actor = live_actor(task, id, LIVE_RUNNING, now, &slot);
	if (!actor || actor->seq & 1)
		return 0;
	if (actor->state != LIVE_RUNNING) {
		live_was_not_here(actor, seen);
		live_add(actor, live_window(actor, now), now);
		actor->state = LIVE_RUNNING;
		actor->in_since = 0;
	}
	live_stays(cpu, LIVE_NOBODY, seen);
	live_stays(cpu, slot, now);
	return 0;
}

/* Looks who has the CPU, where another event than a switch allows to. */
static __always_inline void live_look(struct live_cpu *cpu, u64 now)
{
	struct live_actor *newest = live_at(cpu->slot[cpu->at & (LIVE_STAYS - 1)]);

	if (!newest || newest->tid != (u32)bpf_get_current_pid_tgid())
		live_other_is_here(cpu, now);
	cpu->seen = now;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(live_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct live_actor *actor;
	struct live_cpu *cpu;
	u32 slot, at, id;
	u64 now;

	if (cfg.empty)
		return 0;
	now = bpf_ktime_get_ns();
	id = bpf_get_smp_processor_id();
	cpu = &live_cpus[id & (LIVE_MAX_CPUS - 1)];
	at = cpu->at;
	actor = live_at(cpu->slot[at & (LIVE_STAYS - 1)]);
	if (!actor || actor->tid != (u32)prev->pid || !cpu->since[at & (LIVE_STAYS - 1)])
		actor = live_at(live_other_leaves(prev, cpu, id, now));
	if (actor)
		live_out(actor, cpu, preempt ? STATE_PREEMPTED : state_code(prev, left_state(ctx, prev)), now);
	actor = live_actor(next, id, LIVE_NONE, now, &slot);
	if (actor)
		live_in(actor, slot, cpu, id, now);
	live_stays(cpu, actor ? slot : LIVE_NOBODY, now);
	return 0;
}

static __always_inline bool is_off_cpu(struct task_struct *task)
{
	return bpf_core_field_exists(task->on_cpu) && !task->on_cpu;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(live_waking, struct task_struct *task)
{
	struct live_actor *actor;
	bool has_left;
	u32 slot, state;
	u64 now;

	if (cfg.empty || is_queued(task))
		return 0;
	/* Before its state: whoever is off its CPU has written that. */
	has_left = is_off_cpu(task);
	barrier();
	now = bpf_ktime_get_ns();
	live_look(live_cpu(), now);
	actor = live_actor(task, 0, LIVE_WAKING, now, &slot);
	if (!actor)
		return 0;
	state = *(volatile u32 *)&actor->state;
	if (state == LIVE_RUNNING && has_left) {
		/* Its way out was not seen, and does not come any more. */
		actor->guest_since = 0;
		actor->state = LIVE_NONE;
	} else if (state != LIVE_RUNNING && !live_sleeps(state)) {
		return 0;
	}
	if (!actor->woken)
		actor->woken = now;
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(live_migrate, struct task_struct *task, int dest_cpu)
{
	struct live_actor *actor;
	u64 now;
	u32 seen;

	if (cfg.empty)
		return 0;
	actor = live_known(task->pid, &seen);
	if (!actor)
		return 0;
	now = bpf_ktime_get_ns();
	live_window(actor, now)->migrations++;
	actor->queue_since = now;
	actor->cpu = dest_cpu;
	return 0;
}

/* A thread begins: another one's slot under its number is history. */
static __always_inline int live_born(struct task_struct *task, u32 parent_tgid, u64 now)
{
	u32 seen, slot = live_find(task->pid, &seen);
	struct live_actor *actor = live_at(slot);

	if (slot && actor) {
		live_add(actor, live_window(actor, now), now);
		actor->state = LIVE_GONE;
	}
	slot = live_new(task, seen, LIVE_WAKING, LIVE_BORN, now);
	actor = live_at(slot);
	if (slot && actor)
		actor->parent_tgid = parent_tgid;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(live_fork, struct task_struct *parent, struct task_struct *child)
{
	if (cfg.empty)
		return 0;
	return live_born(child, parent->tgid, bpf_ktime_get_ns());
}

/* Kernel threads and what forks without the event. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(live_wakeup_new, struct task_struct *task)
{
	u32 seen;

	if (cfg.empty || live_find(task->pid, &seen))
		return 0;
	return live_born(task, 0, bpf_ktime_get_ns());
}

/* A thread that was not its process's first takes over the first one's number (de_thread, fs/exec.c). */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(live_exec, struct task_struct *task, int old_tid)
{
	struct live_actor *actor;
	u32 slot, seen;
	u64 now;

	if (cfg.empty)
		return 0;
	now = bpf_ktime_get_ns();
	if (task->pid != old_tid) {
		slot = live_find(old_tid, &seen);
		actor = live_at(slot);
		if (slot && actor) {
			live_add(actor, live_window(actor, now), now);
			actor->state = LIVE_GONE;
		}
		live_find(task->pid, &seen);
		slot = live_new(task, seen, LIVE_RUNNING, LIVE_BORN, now);
		actor = live_at(slot);
		if (slot && actor)
			actor->in_since = now;
		return 0;
	}
	slot = live_find(task->pid, &seen);
	actor = live_at(slot);
	if (slot && actor)
		bpf_probe_read_kernel(actor->comm, sizeof(actor->comm), task->comm);
	return 0;
}

/* Called before the name is changed: the new one is the argument. */
SEC("tp_btf/task_rename")
int BPF_PROG(live_rename, struct task_struct *task, const char *comm)
{
	u32 seen, slot;
	struct live_actor *actor;

	if (cfg.empty)
		return 0;
	slot = live_find(task->pid, &seen);
	actor = live_at(slot);
	if (slot && actor)
		bpf_probe_read_kernel_str(actor->comm, sizeof(actor->comm), comm);
	return 0;
}

/* Who is there when counting begins, and where. Read once, after the other programs are attached:
 * whoever had an event since has a slot, and the event knows better. */
SEC("iter/task")
int live_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	u32 seen, state = LIVE_ASLEEP;
	bool queued;

	if (!task || !task->pid || live_find(task->pid, &seen))
		return 0;
	if (task->exit_state)
		return 0;
	queued = task->on_rq && !(bpf_core_field_exists(task->se.sched_delayed) && task->se.sched_delayed);
	if (queued)
		state = is_off_cpu(task) ? LIVE_PREEMPTED : LIVE_RUNNING;
	live_new(task, seen, state, 0, bpf_ktime_get_ns());
	return 0;
}
