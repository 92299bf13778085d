/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Actors: finding and making them, rolling them into the next window, histograms, rivals.
 *
 * Who writes an actor
 *   A switch of its CPU, under the run queue's lock, and KVM's events in its own name, while it runs;
 *   its moves to another queue, under its own lock, while it sleeps or waits. Its waking may come while
 *   it is still leaving its CPU: so a waking writes nothing but `woken`, and only of a thread that has
 *   nobody to run it until then. What it ends is added up when the thread is switched in: asleep up
 *   to `woken`, waking from then on. A thread woken on its way out was not asleep at all. So plain
 *   stores do everywhere.
 */
#ifndef TRANSECT_LIVE_ACTOR_H
#define TRANSECT_LIVE_ACTOR_H

static __always_inline struct live_cpu *live_cpu(void)
{
	return &live_cpus[bpf_get_smp_processor_id() & (LIVE_MAX_CPUS - 1)];
}

static __always_inline struct live_actor *live_at(u32 slot)
{
	return bpf_map_lookup_elem(&live_actors, &slot);
}

/* Stores before it are seen before those after it. */
static __always_inline void live_ordered(u32 *seq)
{
#if defined(__TARGET_ARCH_x86)
	barrier();
	*(volatile u32 *)seq = *seq + 1;
	barrier();
#else
	__sync_fetch_and_add(seq, 1);
#endif
}

/* Is a thread in this state woken by a waking? */
static __always_inline bool live_sleeps(u32 state)
{
	return (1u << (state & 7)) & (1u << LIVE_NONE | 1u << LIVE_ASLEEP | 1u << LIVE_HALTED);
}

/* Adds the time between two moments in which it had no event but, perhaps, its waking. */
static __always_inline void live_spend(struct live_actor *actor, struct live_sums *sums, u64 from, u64 to)
{
	u32 state = actor->state & 7;
	u64 woken = actor->woken;

	if (woken && live_sleeps(state) && (s64)(to - woken) > 0) {
		if ((s64)(woken - from) > 0) {
			sums->ns[state] += woken - from;
			from = woken;
		}
		state = LIVE_WAKING;
	}
	sums->ns[state] += to - from;
}

/* Adds the time in its state up to `to`. An event may carry a stamp from before the one that was
 * handled first on another CPU: then there is none to add. */
static __always_inline void live_add(struct live_actor *actor, struct live_sums *sums, u64 to)
{
	if ((s64)(to - actor->since) <= 0)
		return;
	live_spend(actor, sums, actor->since, to);
	actor->since = to;
}

static __always_inline struct live_sums *live_sums(struct live_actor *actor)
{
	return &actor->sums[actor->window & 1];
}

static __always_inline void live_clear(struct live_sums *sums, u32 window)
{
	__builtin_memset(sums, 0, sizeof(*sums));
	sums->window = window;
}

/* The first event in a window: ends the one the actor was in at its edge, and begins the new one. */
static __noinline int live_roll(struct live_actor *actor, u64 now)
{
	u64 number = now / cfg.window_ns, start = number * cfg.window_ns, end = actor->end_ns;
	u32 window = number, old = actor->window;
	struct live_sums *sums = live_sums(actor);

	live_ordered(&actor->seq);
	if ((s64)(start - actor->since) > 0) {
		live_add(actor, sums, end);
		if (actor->guest_since && (s64)(end - actor->guest_since) > 0)
			sums->guest_ns += end - actor->guest_since;
		if (window - 1 != old) {
			/* Nothing happened in whole windows: the last of them may still be asked for. */
			sums = &actor->sums[(window - 1) & 1];
			live_clear(sums, window - 1);
			live_spend(actor, sums, start - cfg.window_ns, start);
			if (actor->guest_since)
				sums->guest_ns = cfg.window_ns;
		}
		actor->since = start;
		if (actor->guest_since && (s64)(start - actor->guest_since) > 0)
			actor->guest_since = start;
	}
	live_clear(&actor->sums[window & 1], window);
	actor->window = window;
	actor->end_ns = start + cfg.window_ns;
	live_ordered(&actor->seq);
	return 0;
}

/* The sums of the window that `now` lies in. */
static __always_inline struct live_sums *live_window(struct live_actor *actor, u64 now)
{
	if (now >= actor->end_ns)
		live_roll(actor, now);
	return live_sums(actor);
}

/* A slot nobody has; 0: none left. */
static __always_inline u32 live_take_slot(void)
{
	struct live_cpu *cpu = live_cpu();
	u32 slot = cpu->spare_slot;

	if (slot) {
		cpu->spare_slot = 0;
		return slot;
	}
	for (u32 i = 0; i < 16; i++) {
		u64 head = *(volatile u64 *)&live_shared.free_head;
		u32 at = head & (cfg.slots - 1);
		u64 *found;

		if (head == *(volatile u64 *)&live_shared.free_tail)
			return 0;
		found = bpf_map_lookup_elem(&live_free, &at);
		if (!found)
			return 0;
		slot = *found;
		if (__sync_val_compare_and_swap(&live_shared.free_head, head, head + 1) == head)
			return slot;
	}
	return 0;
}

static __always_inline void live_untracked(void)
{
	__sync_fetch_and_add(&live_shared.untracked, 1);
}

/* Gives a thread a slot in place of `old`, if it has none by then. Returns the slot it has; 0: none. */
static __noinline u32 live_new(struct task_struct *task, u32 old, u32 state, u32 flags, u64 now)
{
	u64 number = now / cfg.window_ns;
	u32 slot = live_take_slot(), tid = task->pid, *place;
	struct live_actor *actor = live_at(slot);

	place = bpf_map_lookup_elem(&live_slots, &tid);
	if (!slot || !actor || !place) {
		live_untracked();
		return 0;
	}
	live_ordered(&actor->seq);
	actor->generation++;
	actor->tid = tid;
	actor->tgid = task->tgid;
	actor->parent_tgid = 0;
	actor->flags = flags;
	actor->state = state;
	actor->mode = LIVE_NO_KVM;
	actor->cpu = task_cpu(task);
	actor->since = actor->known_from = actor->out_since = actor->queue_since = now;
	actor->in_since = actor->woken = actor->on_cpu_ns = actor->guest_since = actor->exit_since = 0;
	actor->asleep_from = actor->asleep_to = actor->poll_window_ns = actor->next_poll_window_ns = 0;
	bpf_probe_read_kernel(actor->comm, sizeof(actor->comm), task->comm);
	live_clear(&actor->sums[number & 1], number);
	live_clear(&actor->sums[(number + 1) & 1], ~0u);
	actor->window = number;
	actor->end_ns = (number + 1) * cfg.window_ns;
	live_ordered(&actor->seq);
	if (__sync_val_compare_and_swap(place, old, slot) == old)
		return slot;
	/* Another event of the thread, on another CPU, was quicker. */
	live_ordered(&actor->seq);
	actor->state = LIVE_NONE;
	actor->tid = 0;
	live_ordered(&actor->seq);
	live_cpu()->spare_slot = slot;
	return *place;
}

/* The slot a thread has; 0: none. `seen` is what its number leads to, be it an earlier thread's. */
static __always_inline struct live_actor *live_known(u32 tid, u32 *seen)
{
	u32 *place = bpf_map_lookup_elem(&live_slots, &tid);
	struct live_actor *actor;

	*seen = place ? *place : 0;
	actor = live_at(*seen);
	if (!*seen || !actor || actor->tid != tid || actor->state == LIVE_GONE)
		return NULL;
	return actor;
}

static __always_inline u32 live_find(u32 tid, u32 *seen)
{
	return live_known(tid, seen) ? *seen : 0;
}

/* A thread that is seen in `state` now, and its slot. A CPU's idle thread has the CPU's number. */
static __always_inline struct live_actor *live_actor(struct task_struct *task, u32 cpu, u32 state, u64 now,
						     u32 *slot)
{
	struct live_actor *actor;
	u32 tid = task->pid;

	if (!tid) {
		*slot = cpu;
		return live_at(cpu);
	}
	actor = live_known(tid, slot);
	if (actor)
		return actor;
	*slot = live_new(task, *slot, state, 0, now);
	return *slot ? live_at(*slot) : NULL;
}

static __always_inline bool live_is_idle(u32 slot)
{
	return slot < cfg.cpus;
}

/* The actor of the current thread; NULL for idle threads. */
static __always_inline struct live_actor *live_current(u64 now, u32 *slot)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!task->pid)
		return NULL;
	return live_actor(task, 0, LIVE_RUNNING, now, slot);
}

/* See LIVE_BUCKETS. */
static __always_inline u32 live_bucket(u64 ns)
{
	u64 rest = ns >> 9;
	u32 octave = 0;

	if (!rest)
		return 0;
	if (rest >> 24)
		return 97;
	for (u32 shift = 16; shift; shift >>= 1) {
		if (rest >> shift) {
			rest >>= shift;
			octave += shift;
		}
	}
	return 1 + octave * 4 + ((ns >> (octave + 7)) & 3);
}

/* The same key's durations, made if need be. */
static __always_inline struct live_durations *live_durations(void *map, const void *key)
{
	static const struct live_durations none = {};
	struct live_durations *durations = bpf_map_lookup_elem(map, key);

	if (durations)
		return durations;
	bpf_map_update_elem(map, key, &none, BPF_NOEXIST);
	durations = bpf_map_lookup_elem(map, key);
	if (!durations)
		__sync_fetch_and_add(&live_shared.no_room, 1);
	return durations;
}

/* One more wait, in the window the actor is in. */
static __always_inline void live_waited(u32 slot, u32 window, u64 ns)
{
	struct live_waits *waits = bpf_map_lookup_elem(&live_waits, &slot);
	u32 at = window & 1, bucket = live_bucket(ns);

	if (!waits)
		return;
	if (waits->window[at] != window) {
		__builtin_memset(waits->buckets[at], 0, sizeof(waits->buckets[at]));
		waits->window[at] = window;
	}
	barrier_var(bucket);
	if (bucket < LIVE_BUCKETS)
		waits->buckets[at][bucket]++;
}

/* The heaviest are kept: a new one takes the place of the lightest. */
static __always_inline void live_rival(struct live_sums *sums, u32 slot, u64 ns)
{
	struct live_rival *least = &sums->rivals[0];

	for (u32 i = 0; i < LIVE_RIVALS; i++) {
		struct live_rival *rival = &sums->rivals[i];

		if (!rival->times || rival->slot == slot) {
			rival->slot = slot;
			rival->times++;
			rival->ns += ns;
			return;
		}
		if (rival->ns < least->ns)
			least = rival;
	}
	sums->others_ns += least->ns;
	least->slot = slot;
	least->times = 1;
	least->ns = ns;
}

/* Divides the wait that ends now among those who had the CPU meanwhile; of the wait what lies in this
 * window. Before the actor was on this CPU's queue, and before what is remembered: nobody knows. */
static __always_inline void live_blame(struct live_sums *sums, struct live_cpu *cpu, u64 from, u64 queued, u64 now)
{
	u32 at = cpu->at;
	u64 until = now;

	if ((s64)(queued - from) > 0) {
		if ((s64)(now - queued) > 0)
			sums->unattributed_ns += queued - from;
		from = queued;
	}
	for (u32 i = 0; i < LIVE_STAYS; i++) {
		u64 since = cpu->since[at & (LIVE_STAYS - 1)];
		u64 begin = (s64)(since - from) > 0 ? since : from;

		if ((s64)(until - from) <= 0)
			return;
		if (!since)
			break;
		if ((s64)(until - begin) > 0) {
			u32 slot = cpu->slot[at & (LIVE_STAYS - 1)];

			if (slot == LIVE_NOBODY)
				sums->unattributed_ns += until - begin;
			else
				live_rival(sums, slot, until - begin);
			until = begin;
		}
		at--;
	}
	if ((s64)(until - from) > 0)
		sums->unattributed_ns += until - from;
}

#endif
