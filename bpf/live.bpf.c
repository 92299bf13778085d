// SPDX-License-Identifier: GPL-2.0
/*
 * Counting instead of recording, window by window: what live faces show. One object with all
 * programs; the loader chooses which of them to load. Layout and the rules of reading are in live.h.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "live.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct live_config cfg SEC(".rodata.config") = {};
struct live_shared live_shared SEC(".bss.shared") = {};
struct live_cpu live_cpus[LIVE_MAX_CPUS] SEC(".bss.cpus") = {};

/* Sizes of all maps are the loader's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct live_actor);
} live_actors SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct live_waits);
} live_waits SEC(".maps");

/* Slot of each thread number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} live_slots SEC(".maps");

/* A ring of free slots. Of 8 bytes each: mapped, entries of arrays lie at multiples of that. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64);
} live_free SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct live_exit_key);
	__type(value, struct live_durations);
} live_exits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct live_io_key);
	__type(value, struct live_durations);
} live_ios SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, struct live_request);
} live_requests SEC(".maps");

/* Who handed in a part of a request that is yet to be issued, by its address. Those that are merged into another's are
 * never asked for: the oldest make room. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u64);
	__type(value, u32);
} live_bios SEC(".maps");

#include "task.bpf.h"
#include "live_actor.bpf.h"
#include "live_sched.bpf.c"
#include "live_kvm.bpf.c"
#include "live_io.bpf.c"
