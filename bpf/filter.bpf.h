/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which events are wanted. Any of the filters that are on lets an event pass: a thread by its tid,
 * a process (a VM is its VMM's) by its tgid, a cgroup with all below it. With none on, `cfg` is
 * constant and the verifier leaves nothing of this file in the programs.
 */
#ifndef TRANSECT_FILTER_H
#define TRANSECT_FILTER_H

#include "config.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} tids SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u32);
	__type(value, u8);
} tgids SEC(".maps");

/* Threads, and processes by their first thread, that were moved to another cgroup: from then on, or until then, their
 * events are missing. Where it is full, nothing is known of any thread of the cgroup. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_MOVED);
	__type(key, u32);
	__type(value, u8);
} moved SEC(".maps");

static __always_inline void filter_note_moved(u32 tid)
{
	u8 one = 1;

	bpf_map_update_elem(&moved, &tid, &one, BPF_ANY);
}

static __always_inline bool filter_is_on(void)
{
	return cfg.filter;
}

/* Is the task in the cgroup, or in one below it? Unified hierarchy only. */
static __always_inline bool filter_in_cgroup(struct task_struct *task)
{
	struct cgroup *own = BPF_CORE_READ(task, cgroups, dfl_cgrp), *wanted = NULL;
	u64 id = 0;

	if (bpf_core_field_exists(own->ancestors)) {
		bpf_probe_read_kernel(&wanted, sizeof(wanted), (void *)own + bpf_core_field_offset(own->ancestors) + 8ull * cfg.cgroup_level);
		id = BPF_CORE_READ(wanted, kn, id);
	} else {
		struct cgroup___ids *old = (void *)own;

		bpf_probe_read_kernel(&id, sizeof(id), (void *)old + bpf_core_field_offset(old->ancestor_ids) + 8ull * cfg.cgroup_level);
	}
	return (u32)BPF_CORE_READ(own, level) >= cfg.cgroup_level && id == cfg.cgroup_id;
}

static __always_inline bool filter_passes(struct task_struct *task, u32 tid, u32 tgid)
{
	if (cfg.filter_tids && bpf_map_lookup_elem(&tids, &tid))
		return true;
	if (cfg.filter_tgids && bpf_map_lookup_elem(&tgids, &tgid))
		return true;
	return cfg.filter_cgroup && filter_in_cgroup(task);
}

/* A program that does nothing, for measurements. */
static __always_inline bool is_empty(void)
{
	if (cfg.empty > 1)
		log_clock_ns();
	return cfg.empty;
}

/* Is an event of the current thread wanted? */
static __always_inline bool wanted_here(void)
{
	u64 id;

	if (!cfg.special)
		return true;
	if (is_empty())
		return false;
	if (!filter_is_on())
		return true;
	id = bpf_get_current_pid_tgid();
	return filter_passes((void *)bpf_get_current_task(), id, id >> 32);
}

/* Is a thread wanted, whoever is current? */
static __always_inline bool wanted_itself(struct task_struct *task)
{
	if (!cfg.special)
		return true;
	if (is_empty())
		return false;
	return !filter_is_on() || filter_passes(task, task->pid, task->tgid);
}

/* Is an event that concerns another thread wanted? */
static __always_inline bool wanted(struct task_struct *task)
{
	return wanted_itself(task) || wanted_here();
}

#endif
