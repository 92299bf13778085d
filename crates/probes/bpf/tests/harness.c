/* SPDX-License-Identifier: GPL-2.0 */
/*
 * log.bpf.h in user space: one CPU, driven by a script on stdin, for the property tests of tests/it/log.rs.
 *
 * First line: chunks of the main log, fold, check_current, overwrite. Then one operation per line:
 *   OP STEP POINT COUNT A B C D E
 * STEP: ns by which the clock advances when the operation reads it. POINT and COUNT: at that
 * LOG_POINT the next COUNT operations (with theirs inside) come as an interrupt would.
 * Output: "e INDEX NS TID" for each operation that read the clock, "s SIDE POSITION SYNC_NS LOST HEX"
 * for each slice, "l MAIN FIRST SECOND" lost events, and "d DEPTH" of interrupts in interrupts, at the end.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define __noinline __attribute__((noinline))
#define barrier() __asm__ volatile("" ::: "memory")
#define barrier_var(var) __asm__ volatile("" : "+r"(var))
#define TRANSECT_STRONG_ORDER

enum point { NOWHERE, entering, entered, reserved, written, pending, leaving };
static void interrupt_at(enum point point);
#define LOG_POINT(name) interrupt_at(name)

#include "config.h"
static struct config cfg;
static struct cpu_logs logs[MAX_CPUS];
static struct control control;
static u8 *memory;
static u64 log_clock_ns(void);
static u32 log_cpu(void) { return 3; }
static u32 log_current_tid(void);
static u32 log_task_prio(const void *task) { return task ? 0 : 120; }
static u8 *log_chunk(const u32 *index) { return memory + (u64)*index * CHUNK_BYTES; }
#define LOG_GLOBAL static __attribute__((noinline))
#include "log.bpf.h"

enum op {
	OP_SWITCH, OP_WAKING, OP_FORK, OP_SYS_ENTER, OP_SYS_EXIT, OP_IRQ_ENTRY, OP_IRQ_EXIT, OP_SOFTIRQ_ENTRY,
	OP_SOFTIRQ_EXIT, OP_KVM_EXIT, OP_KVM_ENTRY, OP_HYPERCALL, OP_BLOCK, OP_PACKET, OP_DRAIN, OP_SILENT_SWITCH,
	OP_INJ_VIRQ, OP_WAKING_IN, OP_VECTOR_ENTRY, OP_VECTOR_EXIT,
};
struct line {
	u32 op, step, point, count;
	u64 arg[5];
};
static struct line *script;
static u32 lines, current = 7, step, running, depth, deepest;
static u64 now;
static struct { u32 point, first, count; } armed;

static u64 log_clock_ns(void)
{
	now += step;
	printf("e %u %llu %u\n", running, (unsigned long long)now, current);
	return now;
}

static u32 log_current_tid(void) { return current; }

static void drain(struct log *log, int side)
{
	u64 head = log->head;

	while (log->tail < head) {
		u64 start = log->tail & ~(u64)CHUNK_MASK, end = start + CHUNK_BYTES < head ? start + CHUNK_BYTES : head;
		u32 index = log->first_chunk + (start / CHUNK_BYTES & (log->chunks - 1));
		u8 *chunk = log_chunk(&index);

		printf("s %d %llu %llu %llu ", side, (unsigned long long)log->tail,
		       (unsigned long long)((u64 *)chunk)[1], (unsigned long long)log->lost);
		for (u64 at = log->tail; at < end; at++)
			printf("%02x", chunk[at & CHUNK_MASK]);
		printf("\n");
		log->tail = end;
	}
}

static void drain_all(void)
{
	struct cpu_logs *cpu = &logs[log_cpu()];

	drain(&cpu->main, 0);
	for (int side = 0; side < SIDE_LOGS; side++)
		drain(&cpu->side[side], 1 + side);
}

static void perform(struct line *line)
{
	u64 *a = line->arg;

	/* Interrupts do not switch threads: writers have preemption off. */
	if (depth && (line->op == OP_SWITCH || line->op == OP_SILENT_SWITCH))
		return;

	switch ((enum op)line->op) {
	case OP_SWITCH:
		log_switch(current, NULL, a[0], a[2], a[1]);
		current = a[0];
		break;
	case OP_WAKING: log_write(WAKING, a[0] | a[1] << 22); break;
	case OP_FORK: log_write2(FORK, a[0], a[1] | (u64)current << 32); break;
	case OP_SYS_ENTER: log_sys_enter(a[0]); break;
	case OP_SYS_EXIT: log_sys_exit(a[0], (s64)a[1]); break;
	case OP_IRQ_ENTRY: log_irq_entry(a[0]); break;
	case OP_IRQ_EXIT: log_irq_exit(a[0], a[1]); break;
	case OP_SOFTIRQ_ENTRY: log_softirq_entry(a[0]); break;
	case OP_SOFTIRQ_EXIT: log_softirq_exit(a[0]); break;
	case OP_KVM_EXIT: log_kvm_exit_begin(a[0], a[1], a[2], a[3]); break;
	case OP_KVM_ENTRY: log_kvm_entry(a[0]); break;
	case OP_HYPERCALL: log_hypercall(a[0], a[1], a[2], a[3], a[4]); break;
	case OP_BLOCK: log_write3(BLOCK_ISSUE, a[0] | 1 << 24, a[1], a[2]); break;
	case OP_PACKET: log_packet(NET_XMIT, a[0], a[1] | a[0] << 20, a[2], 0x30687465 + (a[0] << 24), 0, nothing()); break;
	case OP_DRAIN: drain_all(); break;
	case OP_SILENT_SWITCH: current = a[0]; break;
	case OP_INJ_VIRQ: log_inj_virq(a[0]); break;
	case OP_WAKING_IN: log_write(WAKING_IN, a[0] | a[1] << 22 | a[2] << 32); break;
	case OP_VECTOR_ENTRY: log_vector_entry(a[0], a[1]); break;
	case OP_VECTOR_EXIT: log_vector_exit(a[0], a[1]); break;
	}
}

/* Runs a line and those that come inside it; returns the line after them. */
static u32 run(u32 at)
{
	struct line *line = &script[at];
	u32 outer_step = step, outer_running = running, next;

	step = line->step;
	running = at;
	armed.point = line->point;
	armed.first = at + 1;
	armed.count = line->point ? line->count : 0;
	perform(line);
	next = at + 1;
	if (line->point) {
		/* The point was not on the way: they come afterwards. */
		if (armed.point)
			interrupt_at(armed.point);
		next = armed.first;
	}
	armed.point = NOWHERE;
	step = outer_step;
	running = outer_running;
	return next;
}

static void interrupt_at(enum point point)
{
	u32 at = armed.first, count = armed.count;

	if (!armed.point || armed.point != point)
		return;
	armed.point = NOWHERE;
	depth++;
	if (deepest < depth)
		deepest = depth;
	for (; count && at < lines; count--)
		at = run(at);
	depth--;
	armed.point = NOWHERE;
	armed.first = at;
}

int main(void)
{
	struct log *main_log = &logs[log_cpu()].main, *sides = logs[log_cpu()].side;
	unsigned chunks, fold, check_current, overwrite;
	u32 room = 1024;

	if (scanf("%u %u %u %u", &chunks, &fold, &check_current, &overwrite) != 4)
		return 2;
	cfg.fold = cfg.fold_syscalls = fold;
	cfg.check_current = check_current;
	cfg.overwrite = overwrite;
	memory = calloc(5 + chunks + 2 * SIDE_LOGS, CHUNK_BYTES);
	script = calloc(room, sizeof(*script));
	main_log->first_chunk = 5; /* not 0: an index forgotten is noticed */
	main_log->chunks = chunks;
	for (int side = 0; side < SIDE_LOGS; side++) {
		sides[side].first_chunk = 5 + chunks + 2 * side;
		sides[side].chunks = 2;
		sides[side].side = 1 + side;
	}
	for (;;) {
		struct line *line = &script[lines];
		unsigned long long a[5];

		if (scanf("%u %u %u %u %llu %llu %llu %llu %llu", &line->op, &line->step, &line->point, &line->count,
			  &a[0], &a[1], &a[2], &a[3], &a[4]) != 9)
			break;
		for (int i = 0; i < 5; i++)
			line->arg[i] = a[i];
		if (++lines == room) {
			script = realloc(script, 2 * room * sizeof(*script));
			memset(script + room, 0, room * sizeof(*script));
			room *= 2;
		}
	}
	now = 1000;
	for (u32 at = 0; at < lines;)
		at = run(at);
	if (overwrite) {
		u64 held = (u64)chunks * CHUNK_BYTES, head = (main_log->head + CHUNK_MASK) & ~(u64)CHUNK_MASK;

		if (head > held)
			main_log->tail = head - held;
	}
	drain_all();
	if (main_log->pending_w0)
		log_flush(main_log);
	drain_all();
	printf("l %llu %llu %llu\nd %u\n", (unsigned long long)main_log->lost, (unsigned long long)sides[0].lost,
	       (unsigned long long)sides[1].lost, deepest);
	return main_log->busy || sides[0].busy || sides[1].busy;
}
