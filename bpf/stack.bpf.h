/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The stack of the code that an event is of. The kernel keeps each stack once, by a hash of its frames; the log has
 * its number, right behind the event. The loader reads the frames and names them when recording ends.
 *
 * A number is a part of the hash, and can be taken by another stack: then the new one is not kept, and counted each
 * time. To replace the old one would give its events a stack that is not theirs.
 */
#ifndef TRANSECT_STACK_H
#define TRANSECT_STACK_H

#define MAX_FRAMES 127 /* kernel.perf_event_max_stack, unless somebody lowers it: then the loader does, too */
#define NO_STACK 0xffffffffu
#define EEXIST 17

/* The loader makes these as large as they have to be, and leaves them out where no stacks are wanted. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, MAX_FRAMES * 8);
} stacks SEC(".maps");

/* Of frames in a program: the process that they were first seen in. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} stack_owners SEC(".maps");

/* The thread of a vCPU that rang a doorbell in the exit that is open on this CPU; 0: none. */
u32 doorbells[MAX_CPUS] SEC(".bss.doorbells") = {};

static __always_inline void stack_doorbell(void)
{
	if (cfg.stacks)
		doorbells[log_cpu() & (MAX_CPUS - 1)] = log_current_tid();
}

static __always_inline void stack_exit_ends(void)
{
	if (cfg.stacks)
		doorbells[log_cpu() & (MAX_CPUS - 1)] = 0;
}

static __always_inline bool stack_is_kick(void)
{
	return cfg.stacks && doorbells[log_cpu() & (MAX_CPUS - 1)] == log_current_tid() && log_current_tid();
}

static __always_inline u32 stack_number(long id)
{
	if (id == -EEXIST)
		__sync_fetch_and_add(&control.stacks_lost, 1);
	return id < 0 ? NO_STACK : (u32)id;
}

/* What stands behind the record of an event: its stack, if stacks are wanted. */
static __always_inline struct behind stack_here(void *ctx, u64 point, u64 woken)
{
	struct behind behind = {};
	u32 kernel, user = NO_STACK, owner;

	if (!cfg.stacks)
		return behind;
	kernel = stack_number(bpf_get_stackid(ctx, &stacks, 0));
	/* In an interrupt, what the program does has nothing to do with it. */
	if (context_here() == CONTEXT_TASK)
		user = stack_number(bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK));
	if (user != NO_STACK) {
		owner = bpf_get_current_pid_tgid() >> 32;
		bpf_map_update_elem(&stack_owners, &user, &owner, BPF_NOEXIST);
	}
	behind.is_there = true;
	behind.a = OTHER_STACK | (point | woken << 3) << WHAT_BITS;
	behind.w1 = kernel | (u64)user << 32;
	return behind;
}

#endif
