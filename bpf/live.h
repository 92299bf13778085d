/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the counting programs and the reader share. The Rust side mirrors these structures in
 * crates/probes/bpf/src/live/layout.rs, field by field; a test compares the offsets.
 *
 * Windows
 *   A window is the time between two multiples of cfg.window_ns on CLOCK_MONOTONIC; its number is the
 *   multiple it begins at. Every event is stamped once and belongs to the window of its stamp: the
 *   first event of an actor in a new window ends the old one at the edge, to the nanosecond, however
 *   much later it comes (live_roll). Nobody has to be told when a window ends.
 *
 * Two of everything
 *   An actor has the sums of two windows: the one it is in and one before, in which nothing changes
 *   any more. The reader comes once a window is over and all programs that began in it have ended
 *   (a grace period), and takes it before the one after next begins. An actor without an event
 *   since still is in the old window: the reader adds the time in its state itself. `seq` is odd
 *   while the actor rolls: a reader that meets it tries again.
 */
#ifndef TRANSECT_LIVE_H
#define TRANSECT_LIVE_H

#define LIVE_MAX_CPUS 1024
/* Up to 511 ns; four to each power of two from 512 ns to 8.6 s; longer; two spare. */
#define LIVE_BUCKETS 100
#define LIVE_RIVALS 4
#define LIVE_STAYS 8
#define LIVE_NOBODY (~0u)

enum live_state {
	LIVE_NONE = 0, /* not known */
	LIVE_RUNNING = 1,
	/* 2 is not used */
	LIVE_PREEMPTED = 3,
	LIVE_WAKING = 4, /* new, and not yet on a CPU; who was asleep is waking from `woken` on */
	LIVE_ASLEEP = 5,
	LIVE_HALTED = 6, /* asleep in a halt of the guest */
	LIVE_GONE = 7,
};

enum live_mode { LIVE_NO_KVM = 0, LIVE_GUEST = 1, LIVE_EXIT = 2, LIVE_USER = 3 };

enum { LIVE_BORN = 1, LIVE_HAS_VCPU = 2 };

/* Constant once loaded. */
struct live_config {
	u64 window_ns;
	u32 slots; /* power of two */
	u32 cpus; /* possible ones: slots below are their idle threads */
	u32 halts[2]; /* exit reasons that halt */
	u8 switch_has_state;
	u8 empty; /* do nothing: the floor of what a program costs */
	u8 spare[6];
};

/* Who had the CPU while an actor waited for it, and for how long. */
struct live_rival {
	u32 slot;
	u32 times;
	u64 ns;
};

/* One window of one actor. */
struct live_sums {
	u32 window;
	u32 executions;
	u64 ns[8]; /* by state */
	u64 guest_ns; /* in guest mode */
	u64 slices_ns; /* from switched in to switched out unwillingly */
	u64 slice_min_ns; /* 0: none */
	u64 slice_max_ns;
	u32 slices;
	u32 migrations;
	u32 exits;
	u32 io; /* device accesses that left the guest, kicks included */
	u32 irqs; /* interrupts of devices raised by this thread */
	u32 injections;
	u32 halts;
	u32 polled; /* of these, ended while polling */
	u64 poll_ns;
	u64 wait_max_ns;
	u64 others_ns; /* waited behind rivals that found no place below */
	u64 unattributed_ns; /* waited behind nobody knows whom */
	struct live_rival rivals[LIVE_RIVALS];
};

/* A thread; of a CPU without one, its idle thread. */
struct live_actor {
	/* line 0: every switch */
	u64 since; /* of the state, or the window's beginning */
	u64 end_ns; /* of the window */
	u32 window;
	u32 seq;
	u32 state;
	u32 tid;
	u64 in_since; /* switched in; 0: not running, or not seen */
	u64 out_since; /* switched out last, or first seen */
	u64 woken; /* since it was switched in last; 0: not woken. See live_actor.bpf.h */
	u64 on_cpu_ns; /* in all stays that are over */
	/* line 1: KVM, and what seldom changes */
	u64 guest_since; /* 0: not in guest mode */
	u64 exit_since; /* 0: no exit that waits for its entry */
	u64 exit_on_cpu_ns;
	u64 asleep_from;
	u64 queue_since; /* moved to the queue it is on */
	u32 exit_reason;
	u32 mode;
	u32 vcpu;
	u32 flags;
	u32 poll_window_ns;
	u32 cpu; /* where it runs or ran, or is queued */
	/* line 2 */
	u64 known_from;
	u32 tgid;
	u32 parent_tgid;
	u32 generation; /* grows whenever the slot goes to another thread */
	u32 next_poll_window_ns;
	u8 comm[16];
	u64 asleep_to;
	u64 more_spare[2];
	struct live_sums sums[2];
};

/* How long an actor waited for its CPU, in two windows. */
struct live_waits {
	u32 window[2];
	u32 buckets[2][LIVE_BUCKETS];
};

/* Durations of one kind. */
struct live_durations {
	u64 count;
	u64 total_ns;
	u64 amount; /* exits: ns on a CPU handling them; I/O: bytes */
	u64 max_ns; /* exits only */
	u32 buckets[LIVE_BUCKETS];
};

struct live_exit_key {
	u32 slot;
	u32 reason;
	u32 window;
	u32 generation;
};

enum { LIVE_READ = 0, LIVE_WRITE = 1, LIVE_XMIT = 2, LIVE_RECEIVE = 3 };

struct live_io_key {
	u32 who; /* block: the process that asked; net: the device */
	u32 kind;
	u32 window;
	u32 spare;
};

/* A block request on its way. */
struct live_request {
	u64 ns;
	u32 tgid;
	u32 kind;
};

/*
 * Who had a CPU last, newest at `at`, which only grows and is written behind what it leads to: a reader
 * that finds it as it was before has read the newest LIVE_STAYS - 1 of one moment.
 */
struct live_cpu {
	u32 at;
	u32 spare_slot; /* taken by live_new and not used */
	u64 seen; /* the last waking by this CPU */
	u64 since[LIVE_STAYS]; /* 0: none yet */
	u32 slot[LIVE_STAYS]; /* LIVE_NOBODY: not known who */
	u64 more_spare[2];
};

/* Written by the programs and the reader. */
struct live_shared {
	u64 free_head; /* slots taken from the ring of free ones */
	u64 free_tail; /* slots put there: by the reader only */
	u64 untracked; /* events of threads for which there was no slot */
	u64 no_room; /* durations that found no room in a map */
	u64 unwoken; /* times a sleeping thread was switched in whose waking was not seen */
	u64 spare[3];
};

#endif
