/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the loader decides, and what it shares with the programs while they run.
 * The Rust side mirrors these structures in crates/probes/bpf/src/layout.rs, field by field.
 */
#ifndef TRANSECT_CONFIG_H
#define TRANSECT_CONFIG_H

#define MAX_CPUS 1024 /* power of two; more possible CPUs are refused when loading */
#define CHUNK_BYTES 32768u
#define CHUNK_MASK (CHUNK_BYTES - 1)

#define NAMED_DEVICES 4
#define EXIT_SLOTS 16
#define BEGINS 4

/* Constant once loaded: the verifier removes every branch that a constant decides. */
struct config {
	u64 cgroup_id; /* cgroup filter: this one and all below it */
	u64 trigger_ns; /* least duration of the interval that pulls the trigger */
	u64 irq_min_ns; /* folded intervals shorter than these are dropped */
	u64 softirq_min_ns;
	u64 syscall_min_ns;
	u64 exit_min_ns;
	u32 cgroup_level;
	u32 trigger_kind; /* kind that pulls the trigger; 0 = none */
	u8 empty; /* do nothing: the floor of what a program costs. 1 nothing at all, 2 takes the stamp */
	u8 overwrite; /* flight recorder: overwrite the oldest chunk */
	u8 check_current; /* sched_switch is not recorded, or filtered: any two records may be different threads' */
	u8 fold; /* write BEGIN and END of KVM and interrupts as one record where nothing lies between */
	u8 filter; /* any of the next three */
	u8 filter_tids;
	u8 filter_tgids;
	u8 filter_cgroup;
	u8 switch_has_state; /* sched_switch has prev_state as fourth argument (5.18) */
	u8 fold_syscalls; /* the same for system calls */
	u8 special; /* any of empty, overwrite, check_current, filter, trigger_kind: asked first */
	u8 count_is_known; /* where the CPUs have their preemption count: wakings tell the context */
	u8 causes; /* fields of events that only tell what caused what: values, numbers, owners */
	u8 stacks; /* the stacks of the events with which stages begin */
	u8 spare[2];
};

/* A VM exit that the chunk being filled tells: reason:12 vcpu:12 info1:32, and rip. */
struct told_exit {
	u64 what;
	u64 rip;
};

/* Threads that can be noted as moved to another cgroup. */
#define MAX_MOVED 8192

/* One log. Lines of 64 bytes by who writes them and how often. */
struct log {
	/* line 0: every event */
	u64 head; /* stream position: bytes ever written; words below it are complete */
	u64 last_ns; /* stamp the next delta counts from */
	u32 current; /* thread that the log says runs */
	u32 chunk; /* index of the chunk being filled */
	u16 busy; /* a writer is inside */
	u16 side; /* 0: the main log; else the how manieth side log */
	u16 started; /* the first SYNC has been written */
	u16 flushing; /* what is written happened before: in `current`, whoever runs now */
	u64 pending_w0; /* BEGIN not yet written: its words, 0 = none */
	u64 pending_w1;
	u64 pending_w2;
	u64 pending_ns;
	/* line 1: seldom */
	u64 lost; /* events lost in this log so far */
	u64 lost_told; /* of these, in LOST records */
	u64 lost_first_ns; /* of those not yet told */
	u64 lost_last_ns;
	u64 saturated; /* events with a field that did not fit */
	u64 short_intervals; /* folded intervals dropped for their duration */
	u32 rip_high; /* upper half of the last full rip of this chunk */
	u32 has_rip;
	u32 first_chunk; /* set by the loader: first index of this log's chunks */
	u32 chunks; /* set by the loader: power of two */
	/* line 2: the consumer; a log that overwrites has none, so its writer uses the line */
	u64 tail;
	u64 events; /* written to a log that overwrites; minus those in a snapshot, the number overwritten */
	u64 consumer_spare[6];
	/* line 3 */
	u64 begin_ns[BEGINS]; /* for triggers: when the pair last began, written or not */
	u64 lost_since_ns; /* stamp of the first event ever lost here */
	u32 named[NAMED_DEVICES]; /* devices whose name stands in this chunk: ifindex, 0 = free */
	u32 named_next;
	u32 exits_set; /* a bit per slot: taken in this chunk */
	/* lines 4 to 7: VM exits */
	struct told_exit exits[EXIT_SLOTS];
};

#define SIDE_LOGS 2

struct cpu_logs {
	struct log main;
	struct log side[SIDE_LOGS];
};

/* Shared with the consumer, both write. */
struct control {
	u64 paused; /* nobody writes while this is not 0: a snapshot, a pulled trigger, or the end */
	u64 trigger_ns; /* stamp at which the trigger was pulled */
	u64 trigger_cpu;
	u64 trigger_tid;
	u64 stacks_lost; /* how often a stack was not kept: its number is another's */
	u64 spare[3];
};

#endif
