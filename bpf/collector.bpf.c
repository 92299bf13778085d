// SPDX-License-Identifier: GPL-2.0
/*
 * The compact collector: one object with all programs over one set of logs. The loader
 * chooses which of them to load; what it does not choose costs nothing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "config.h"

char LICENSE[] SEC("license") = "GPL";

#if defined(__TARGET_ARCH_x86)
#define TRANSECT_STRONG_ORDER
#endif

const volatile struct config cfg SEC(".rodata.config") = {};
struct cpu_logs logs[MAX_CPUS] SEC(".bss.logs") = {};
struct control control SEC(".bss.control") = {};

/* Memory of all logs. One entry is one chunk and not one log: values above 4 MiB are refused by
 * kernels before 6.10 or so (KMALLOC_MAX_SIZE), and so the size of a log is the loader's choice. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, CHUNK_BYTES);
} chunks SEC(".maps");

static __always_inline u64 log_clock_ns(void)
{
	return bpf_ktime_get_ns();
}

static __always_inline u32 log_cpu(void)
{
	return bpf_get_smp_processor_id();
}

static __always_inline u32 log_current_tid(void)
{
	return (u32)bpf_get_current_pid_tgid();
}

static __always_inline u32 log_task_prio(const void *task)
{
	return ((const struct task_struct *)task)->prio;
}

/* The key is a copy: memory handed to a global function is none that older kernels take keys from (6.1,
 * kernel/bpf/verifier.c, map_key_value_types). */
static __always_inline u8 *log_chunk(const u32 *index)
{
	u32 key = *index;

	return bpf_map_lookup_elem(&chunks, &key);
}

#include "log.bpf.h"
#include "filter.bpf.h"
#include "task.bpf.h"
#include "context.bpf.h"
#include "stack.bpf.h"

#include "sched.bpf.c"
#include "syscalls.bpf.c"
#include "irq.bpf.c"
#include "vectors.bpf.c"
#include "kvm.bpf.c"
#include "block.bpf.c"
#include "bio.bpf.c"
#include "packet.bpf.h"
#include "net.bpf.c"
#include "work.bpf.c"
#include "locks.bpf.c"
#include "quota.bpf.c"
#include "memory.bpf.c"

/* Writes out what is pending in the log of a CPU. Called by the loader when nobody writes: the
 * programs are detached, or paused. */
struct flush {
	u32 cpu;
};

SEC("syscall")
int flush_pending(struct flush *ctx)
{
	struct log *log = &logs[ctx->cpu & (MAX_CPUS - 1)].main;

	if (log->pending_w0)
		log_flush(log);
	return 0;
}
