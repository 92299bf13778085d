/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The log: how events become records in a CPU's memory.
 *
 * Concepts
 *   A log is a ring of chunks of 32 KiB; positions in it only grow. A chunk is *granted whole*:
 *   whether there is room is asked once per chunk, and the usual path reads nothing the consumer
 *   writes. A chunk begins with SYNC, a record never crosses its end, PAD fills the rest.
 *   `head` moves only behind complete records, so the consumer may take everything below it.
 *
 * Writers
 *   Only its own CPU writes a log, but an interrupt or NMI may come while a writer is inside.
 *   Such a nested writer finds `busy` set and uses the first side log that is free, in which every
 *   record has a SYNC of its own. It is always finished before the interrupted one goes on, so plain
 *   stores do: a nested writer between our test of `busy` and our store of it has left before we
 *   store. There is a log for the task, one for the softirq that comes when an interrupt ends, one
 *   for the interrupt in that; when all are busy (an NMI then), the event is counted as lost.
 *   Programs on tracepoints run with preemption off; should they not (PREEMPT_RT), a thread that
 *   preempts a writer merely uses a side log as an interrupt does.
 *
 * Pairs
 *   A BEGIN is kept in the header (pending). Its END, if nothing else is written between, makes
 *   one folded record of both; anything else writes the BEGIN out first. Order is kept, nothing is lost.
 *
 * The same file is compiled for user space by the harness of the tests, which supplies
 * log_clock_ns, log_cpu, log_current_tid, log_task_prio, log_chunk, LOG_POINT, LOG_GLOBAL and the three globals.
 */
#ifndef TRANSECT_LOG_H
#define TRANSECT_LOG_H

#include "config.h"
#include "kinds.h"

#ifndef LOG_POINT
#define LOG_POINT(name) /* where the harness lets interrupts in */
#endif
#ifndef LOG_GLOBAL
/* A function that the verifier looks at once per program, for any argument, and not at every call (kernel 5.12,
 * kernel/bpf/btf.c, btf_prepare_func_args: pointers may be NULL there). */
#define LOG_GLOBAL __weak __noinline
#endif
#define unlikely_(x) __builtin_expect(!!(x), 0)

/* The kind's payload `a` and the kind, as word 0 without its delta. */
#define WORD0(kind, a) ((u64)(kind) | (u64)(a) << 30)
#define DELTA_SHIFT 6
#define DELTA_MAX ((1ull << 24) - 1)
#define A_MAX ((1ull << 34) - 1)
/* SYNC 3, LOST 3, TIME 2 and the longest record 3: what may have to fit behind one another. */
#define ROOM_WORDS 11

/* The first BEGINS of them can pull a trigger by their length. */
enum pair { PAIR_KVM, PAIR_IRQ, PAIR_SOFTIRQ, PAIR_SYSCALL, PAIR_VECTOR };

static __always_inline void log_lose(struct log *log, u64 first_ns, u64 last_ns, u64 events)
{
	if (log->lost == log->lost_told)
		log->lost_first_ns = first_ns;
	if (!log->lost)
		log->lost_since_ns = first_ns;
	log->lost_last_ns = last_ns;
	log->lost += events;
}

/* Makes `head` visible only after the words below it. x86 keeps stores in order, a compiler
 * barrier is enough; elsewhere an atomic exchange orders them. */
static __always_inline void log_publish(struct log *log, u64 head)
{
#if defined(TRANSECT_STRONG_ORDER)
	barrier();
	*(volatile u64 *)&log->head = head;
#else
	__sync_lock_test_and_set(&log->head, head);
#endif
}

/* Fills the rest of a chunk, at most ROOM_WORDS + 3 words, with PAD. */
LOG_GLOBAL int log_skip_rest(struct log *log)
{
	u64 offset;
	u8 *chunk;

	if (!log)
		return 0;
	offset = log->head & CHUNK_MASK;
	chunk = log_chunk(&log->chunk);
	if (!chunk || !offset)
		return 0;
	for (u32 i = 0; i < ROOM_WORDS + 3; i++) {
		barrier_var(offset); /* the verifier must see the test of the very register that is used */
		if (offset > CHUNK_BYTES - 8)
			break;
		*(volatile u64 *)(chunk + offset) = 0;
		offset += 8;
	}
	log_publish(log, (log->head | CHUNK_MASK) + 1);
	return 0;
}

/* The seldom path: a new chunk, a stamp too far from the last one, any record of a side log.
 * Writes PAD, SYNC, LOST, TIME as needed (they become visible with the record that follows) and
 * returns the record's offset in its chunk; log->last_ns is then the stamp to use for it.
 * -1: no room, `events` counted as lost. */
LOG_GLOBAL s64 log_make_room(struct log *log, u64 ns, u64 end_ns, u64 events)
{
	u64 head, offset, base;
	u64 *word;
	u8 *chunk;

	if (!log)
		return -1;
	head = log->head;
	offset = head & CHUNK_MASK;
	base = log->last_ns;
	if (offset && offset > CHUNK_BYTES - 8 * ROOM_WORDS) {
		log_skip_rest(log);
		head = log->head;
		offset = 0;
	}
	if (!offset) {
		if (!cfg.overwrite && head + CHUNK_BYTES - *(volatile u64 *)&log->tail > (u64)log->chunks * CHUNK_BYTES) {
			log_lose(log, ns, end_ns, events);
			return -1;
		}
		log->chunk = log->first_chunk + ((head / CHUNK_BYTES) & (log->chunks - 1));
		log->has_rip = 0;
		log->exits_set = 0;
		for (u32 i = 0; i < NAMED_DEVICES; i++)
			log->named[i] = 0;
	}
	chunk = log_chunk(&log->chunk);
	barrier_var(offset);
	if (!chunk || offset > CHUNK_BYTES - 8 * ROOM_WORDS)
		return -1;
	word = (u64 *)(chunk + offset);
	if (!offset || log->side) {
		u64 flags = (log->started ? 0 : 1) | (log->side ? 2 : 0);
		/* A loss later than this record (in an interrupt since its stamp) is told with the next. */
		bool lost = log->lost != log->lost_told && (s64)(ns - log->lost_last_ns) >= 0;

		log->started = 1;
		if (!log->flushing)
			log->current = log_current_tid();
		base = lost ? log->lost_first_ns : ns;
		word[0] = WORD0(SYNC, log->current | flags << 22);
		word[1] = base;
		word[2] = log->lost;
		word += 3;
		offset += 24;
		if (lost) {
			u64 count = log->lost - log->lost_told;

			base = log->lost_last_ns;
			word[0] = WORD0(LOST, count > A_MAX ? A_MAX : count);
			word[1] = log->lost_first_ns;
			word[2] = base;
			word += 3;
			offset += 24;
			log->lost_told = log->lost;
		}
	}
	/* Clocks that NMIs may read can step back by a few ns (kernel/time/timekeeping.c,
	 * ktime_get_mono_fast_ns): such a record has the stamp of the one before. */
	if ((s64)(ns - base) < 0)
		ns = base;
	if (ns != base) {
		word[0] = WORD0(TIME, 0);
		word[1] = ns;
		offset += 16;
	}
	log->last_ns = ns;
	return offset;
}

/* Writes one record: `words` (a constant) of w0, w1, w2. `ns` is its stamp, `dur_ns` the length of
 * a folded interval (0 else), `events` how many are lost if it cannot be written. */
static __always_inline bool log_emit(struct log *log, u64 ns, u64 dur_ns, u64 events, u32 words,
				     u64 w0, u64 w1, u64 w2)
{
	u64 head = log->head, offset = head & CHUNK_MASK, delta = ns - log->last_ns;
	u64 *word;
	u8 *chunk;

	if (unlikely_(!offset || offset > CHUNK_BYTES - 8 * words || delta > DELTA_MAX)) {
		s64 at = log_make_room(log, ns, ns + dur_ns, events);

		if (at < 0)
			return false;
		offset = at;
		head = log->head;
		ns = log->last_ns;
		delta = 0;
	}
	LOG_POINT(reserved);
	chunk = log_chunk(&log->chunk);
	barrier_var(offset);
	if (!chunk || offset > CHUNK_BYTES - 8 * words)
		return false;
	word = (u64 *)(chunk + offset);
	word[0] = w0 | delta << DELTA_SHIFT;
	if (words > 1)
		word[1] = w1;
	if (words > 2)
		word[2] = w2;
	LOG_POINT(written);
	if (cfg.overwrite)
		log->events += events;
	log->last_ns = ns + dur_ns;
	log_publish(log, (head & ~(u64)CHUNK_MASK) + offset + 8 * words);
	return true;
}

/* An OTHER record that belongs to the one before it, and has its stamp. */
struct behind {
	u64 a;
	u64 w1;
	bool is_there;
};

static __always_inline struct behind nothing(void)
{
	struct behind behind = {};

	return behind;
}

static __always_inline void log_emit_behind(struct log *log, bool written, struct behind behind)
{
	u64 ns = log->last_ns;

	if (!behind.is_there || !written)
		return;
	if (log->side)
		log->last_ns = 1ull << 63;
	log_emit(log, ns, 0, 1, 3, WORD0(OTHER, behind.a), behind.w1, 0);
}

/* A record of three words and one of `words` that need it before them: both or none, in one chunk. */
static __always_inline bool log_emit_two(struct log *log, u64 ns, u64 v0, u64 v1, u64 v2, u32 words,
					 u64 w0, u64 w1, u64 w2)
{
	/* A chunk's end too near for both is passed here; the room behind is then the second's. */
	if ((log->head & CHUNK_MASK) > CHUNK_BYTES - 8 * (ROOM_WORDS + 3))
		log_skip_rest(log);
	return log_emit(log, ns, 0, 1, 3, v0, v1, v2) && log_emit(log, log->last_ns, 0, 0, words, w0, w1, w2);
}

/* A record with a full rip has been written: short ones of this chunk may leave its upper half out. */
static __always_inline void log_remember_rip(struct log *log, u64 rip)
{
	log->rip_high = rip >> 32;
	log->has_rip = 1;
}

/* A record of any length surely goes into the chunk that is being filled. */
static __always_inline bool log_stays_in_chunk(struct log *log)
{
	u64 offset = log->head & CHUNK_MASK;

	return offset && offset <= CHUNK_BYTES - 8 * ROOM_WORDS;
}

/* A guest leaves for the same reason at the same place again and again: what an exit's record says
 * beyond its time is told once per chunk, then by the number of a slot. */
static __always_inline u32 exit_slot(u64 what, u64 rip)
{
	return (what + rip) * 0x9e3779b97f4a7c15ull >> 60;
}

static __always_inline bool log_has_told(struct log *log, u32 slot, u64 what, u64 rip)
{
	return log->exits_set >> slot & 1 && log->exits[slot].what == what && log->exits[slot].rip == rip &&
	       log_stays_in_chunk(log);
}

/* The exit has been told in full. Not in a side log, each of whose records has a SYNC before it. */
static __always_inline void log_remember_exit(struct log *log, u32 slot, u64 what, u64 rip)
{
	if (log->side)
		return;
	log->exits[slot].what = what;
	log->exits[slot].rip = rip;
	log->exits_set |= 1u << slot;
}

/* An exit on its own, in the shortest form that its fields fit. */
static __always_inline void log_kvm_exit(struct log *log, u64 ns, u64 w0, u64 rip, u64 info1)
{
	u64 a = w0 >> 30, reason = a & 0xffff, vcpu = a >> 16 & 0xffff;
	u64 what = reason | vcpu << 12 | info1 << 24;
	bool fits = !(a >> 32) && reason < 4096 && vcpu < 4095 && !(info1 >> 32), written;
	u32 slot = exit_slot(what, rip);

	if (fits && log_has_told(log, slot, what, rip)) {
		log_emit(log, ns, 0, 1, 1, WORD0(KVM_EXIT_R, slot), 0, 0);
		return;
	}
	if (fits && info1 < 1024)
		written = log_emit(log, ns, 0, 1, 2, WORD0(KVM_EXIT_S, what), rip, 0);
	else
		written = log_emit(log, ns, 0, 1, 3, w0, rip, info1);
	if (written)
		log_remember_rip(log, rip);
	if (written && fits)
		log_remember_exit(log, slot, what, rip);
}

/* Writes the pending BEGIN as a record of its own: that of the thread that was current when it was
 * held back, as `current` still is. Whoever runs now may be another one, or the loader. */
LOG_GLOBAL int log_flush(struct log *log)
{
	u64 w0;

	if (!log)
		return 0;
	w0 = log->pending_w0;
	log->pending_w0 = 0;
	log->flushing = 1;
	if ((w0 & 63) == KVM_EXIT)
		log_kvm_exit(log, log->pending_ns, w0, log->pending_w1, log->pending_w2);
	else
		log_emit(log, log->pending_ns, 0, 1, 1, w0, 0, 0);
	log->flushing = 0;
	return 0;
}

/* Another thread than the log thinks: told. A SYNC, due for the next record, tells by itself. */
LOG_GLOBAL int log_tell_current(struct log *log, u64 ns, u32 tid)
{
	if (!log)
		return 0;
	if (log->pending_w0)
		log_flush(log);
	if (log->side || !(log->head & CHUNK_MASK))
		return 0;
	if (log_emit(log, ns, 0, 0, 1, WORD0(CURRENT, tid), 0, 0))
		log->current = tid;
	return 0;
}

/* Whose event is it? Mostly that of whom the last switch put here; but switches may be filtered, not
 * asked for, or not traced (kernels that keep some threads' own events out of tracing). */
static __always_inline void log_check_current(struct log *log, u64 ns)
{
	u32 tid = log_current_tid();

	if (unlikely_(tid != log->current))
		log_tell_current(log, ns, tid);
}

/* The log to write to, now ours; NULL: counted as lost, or not wanted. */
static __always_inline struct log *log_enter(void)
{
	struct cpu_logs *cpu = &logs[log_cpu() & (MAX_CPUS - 1)];
	struct log *log = &cpu->main;

	if (unlikely_(*(volatile u64 *)&control.paused))
		return NULL;
	if (unlikely_(*(volatile u16 *)&log->busy)) {
		log = &cpu->side[0];
		if (*(volatile u16 *)&log->busy)
			log = &cpu->side[1];
		if (*(volatile u16 *)&log->busy) {
			u64 ns = log_clock_ns();

			log_lose(log, ns, ns, 1);
			return NULL;
		}
		log->last_ns = 1ull << 63; /* far from any stamp: log_make_room for every record */
	}
	LOG_POINT(entering);
	*(volatile u16 *)&log->busy = 1;
	barrier();
	LOG_POINT(entered);
	return log;
}

/* A field of the record to be written does not fit: the largest value that does is written. */
static __always_inline void log_saturated(void)
{
	logs[log_cpu() & (MAX_CPUS - 1)].main.saturated++;
}

static __always_inline void log_leave(struct log *log)
{
	LOG_POINT(leaving);
	barrier();
	*(volatile u16 *)&log->busy = 0;
}

/* The condition has come true: all logs stand still until the consumer has seen it. */
static __always_inline void log_pull_trigger(u64 ns)
{
	if (control.paused)
		return;
	control.trigger_ns = ns;
	control.trigger_cpu = log_cpu();
	control.trigger_tid = log_current_tid();
	barrier();
	control.paused = 1;
}

static __always_inline void log_trigger(u32 kind, u64 ns, u64 dur_ns)
{
	if (cfg.trigger_kind == kind && dur_ns >= cfg.trigger_ns)
		log_pull_trigger(ns);
}

/* Any record but BEGIN and END; `event` is the kind whose trigger it pulls. */
static __always_inline void log_write_event(u32 event, u32 kind, u32 words, u64 a, u64 w1, u64 w2,
					    struct behind behind)
{
	bool written;
	struct log *log = log_enter();
	u64 ns;

	if (!log)
		return;
	ns = log_clock_ns();
	if (log->pending_w0)
		log_flush(log);
	log_check_current(log, ns);
	written = log_emit(log, ns, 0, 1, words, WORD0(kind, a), w1, w2);
	log_emit_behind(log, written, behind);
	log_trigger(event, ns, 0);
	log_leave(log);
}

static __always_inline void log_write_words(u32 kind, u32 words, u64 a, u64 w1, u64 w2)
{
	log_write_event(kind, kind, words, a, w1, w2, nothing());
}

static __always_inline int log_write(u32 kind, u64 a)
{
	log_write_words(kind, 1, a, 0, 0);
	return 0;
}

static __always_inline int log_write2(u32 kind, u64 a, u64 w1)
{
	log_write_words(kind, 2, a, w1, 0);
	return 0;
}

static __always_inline int log_write3(u32 kind, u64 a, u64 w1, u64 w2)
{
	log_write_words(kind, 3, a, w1, w2);
	return 0;
}

/* A record of the kind OTHER: `what` it is and its 29 bits `x`, then two words. */
static __always_inline int log_other(u32 what, u64 x, u64 w1, u64 w2)
{
	return log_write3(OTHER, what | x << WHAT_BITS, w1, w2);
}

/* The same in place of a record of that kind. */
static __always_inline int log_other_as(u32 kind, u32 what, u64 x, u64 w1, u64 w2)
{
	log_write_event(kind, OTHER, 3, what | x << WHAT_BITS, w1, w2, nothing());
	return 0;
}

/* What every record but END does before it is written. */
static __always_inline u64 log_prepare(struct log *log)
{
	u64 ns = log_clock_ns();

	if (log->pending_w0)
		log_flush(log);
	log_check_current(log, ns);
	return ns;
}

/* A hypercall. Arguments that are 0 are left out; the third and fourth come in a second record. */
static __always_inline int log_hypercall(u64 nr, u64 arg0, u64 arg1, u64 arg2, u64 arg3)
{
	struct log *log;
	u64 ns;

	if (!arg2 && !arg3 && nr <= A_MAX) {
		if (!arg0 && !arg1)
			return log_write(KVM_HYPERCALL, nr);
		return log_write3(KVM_HYPERCALL_A, nr, arg0, arg1);
	}
	log = log_enter();
	if (!log)
		return 0;
	ns = log_prepare(log);
	log_emit_two(log, ns, WORD0(KVM_HYPERCALL_A, nr & A_MAX), arg0, arg1, 3, WORD0(MORE, nr >> 34), arg2, arg3);
	log_trigger(KVM_HYPERCALL, ns, 0);
	log_leave(log);
	return 0;
}

/* Does the device's name stand in the chunk being filled? If not, it is taken to do from now on. */
static __always_inline bool log_has_named(struct log *log, u32 ifindex)
{
	for (u32 i = 0; i < NAMED_DEVICES; i++)
		if (log->named[i] == ifindex)
			return true;
	return false;
}

/* A packet; with the name of its device (`name0`, `name1`), once per chunk. */
static __always_inline int log_packet(u32 kind, u32 ifindex, u64 a, u64 w1, u64 name0, u64 name1, struct behind behind)
{
	struct log *log = log_enter();
	bool written;
	u64 ns;

	if (!log)
		return 0;
	ns = log_prepare(log);
	/* A record at offset 0 begins a new chunk, in which nobody is named. */
	if (log_stays_in_chunk(log) && log_has_named(log, ifindex)) {
		written = log_emit(log, ns, 0, 1, 2, WORD0(kind, a), w1, 0);
	} else {
		written = log_emit_two(log, ns, WORD0(DEVICE_NAME, ifindex), name0, name1, 2, WORD0(kind, a), w1, 0);
		if (written) {
			log->named[log->named_next & (NAMED_DEVICES - 1)] = ifindex;
			log->named_next++;
		}
	}
	log_emit_behind(log, written, behind);
	log_trigger(kind, ns, 0);
	log_leave(log);
	return 0;
}

/* A switch: says who runs from here on. */
static __always_inline int log_switch(u32 prev, const void *prev_task, u32 next, u32 next_prio, u32 state)
{
	u64 a = next | (u64)state << 22 | (u64)(next_prio & 0xff) << 26, ns;
	struct log *log = log_enter();
	bool written;

	if (!log)
		return 0;
	ns = log_clock_ns();
	if (log->pending_w0)
		log_flush(log);
	/* The first record of a chunk has a SYNC before it, which says prev. */
	if (log->current == prev)
		written = log_emit(log, ns, 0, 1, 1, WORD0(SWITCH, a), 0, 0);
	else
		written = log_emit(log, ns, 0, 1, 2, WORD0(SWITCH_FROM, a), prev | (u64)log_task_prio(prev_task) << 32, 0);
	if (written)
		log->current = next;
	log_trigger(SWITCH, ns, 0);
	log_leave(log);
	return 0;
}

/* Holds a BEGIN back. If a SYNC is to come before it, which says who runs, that is noted now: another
 * thread may run when it is written, and the log may have lost the switch to this one. */
static __always_inline void log_hold(struct log *log, u64 ns, u64 w0, u64 w1, u64 w2)
{
	if (unlikely_(log->side || !(log->head & CHUNK_MASK)))
		log->current = log_current_tid();
	log->pending_ns = ns;
	log->pending_w1 = w1;
	log->pending_w2 = w2;
	LOG_POINT(pending);
	log->pending_w0 = w0;
}

/* A BEGIN that its END may be folded with. */
static __always_inline int log_begin(enum pair pair, u64 w0, u64 w1, u64 w2)
{
	struct log *log = log_enter();
	u64 ns;

	if (!log)
		return 0;
	ns = log_clock_ns();
	if (log->pending_w0)
		log_flush(log);
	log_check_current(log, ns);
	if (cfg.trigger_kind && pair < BEGINS)
		log->begin_ns[pair] = ns;
	log_hold(log, ns, w0, w1, w2);
	if (log->side || !(pair == PAIR_SYSCALL ? cfg.fold_syscalls : cfg.fold))
		log_flush(log);
	log_leave(log);
	return 0;
}

/* An interrupt is put into a guest, mostly right before it is entered: the entry is its END. */
static __always_inline int log_inj_virq(u32 vector)
{
	struct log *log = log_enter();
	u64 ns;

	if (!log)
		return 0;
	ns = log_prepare(log);
	log_hold(log, ns, WORD0(KVM_INJ_VIRQ, vector), 0, 0);
	if (log->side || !cfg.fold)
		log_flush(log);
	log_trigger(KVM_INJ_VIRQ, ns, 0);
	log_leave(log);
	return 0;
}

/* What an END has found. */
struct end {
	struct log *log; /* NULL: nothing to do */
	u64 ns;
	u64 begin_ns; /* where folded: the stamp of the record */
	u64 dur_ns;
	bool folds; /* the pending BEGIN is ours: write both as one, or log_unfold */
};

/* Begins an END: `begin` is word 0 of the BEGIN that it would fold with, `mask` which bits of it count. */
static __always_inline struct end log_end(u64 begin, u64 mask)
{
	struct end end = { .log = log_enter() };

	if (!end.log)
		return end;
	end.ns = log_clock_ns();
	/* Where switches are recorded, the one way in at least, nothing is pending behind them: an END
	 * that folds is that of the BEGIN's thread. */
	if (cfg.check_current)
		log_check_current(end.log, end.ns);
	end.folds = end.log->pending_w0 && (end.log->pending_w0 & mask) == begin;
	if (!cfg.check_current && !end.folds)
		log_check_current(end.log, end.ns);
	end.begin_ns = end.log->pending_ns;
	end.dur_ns = end.ns - end.begin_ns;
	if (end.folds && (s64)end.dur_ns < 0)
		end.dur_ns = 0;
	return end;
}

/* Writes the folded record, unless the interval is too short to be wanted. */
static __always_inline bool log_fold(struct end *end, u64 min_ns, u32 words, u64 w0, u64 w1, u64 w2)
{
	end->log->pending_w0 = 0;
	if (min_ns && end->dur_ns < min_ns) {
		end->log->short_intervals++;
		return false;
	}
	return log_emit(end->log, end->begin_ns, end->dur_ns, 2, words, w0, w1, w2);
}

/* The END as a record of its own, after whatever BEGIN was pending. */
static __always_inline void log_end_alone(struct end *end, u32 words, u64 w0, u64 w1)
{
	if (end->log->pending_w0)
		log_flush(end->log);
	log_emit(end->log, end->ns, 0, 1, words, w0, w1, 0);
}

static __always_inline void log_end_trigger(struct end *end, u32 kind, enum pair pair)
{
	u64 begin_ns;

	if (cfg.trigger_kind != kind)
		return;
	begin_ns = end->log->begin_ns[pair];
	end->log->begin_ns[pair] = 0;
	/* A system call that slept has its BEGIN on whichever CPU: only a folded one is known. */
	if (begin_ns && (end->folds || pair != PAIR_SYSCALL) && end->ns - begin_ns >= cfg.trigger_ns)
		log_pull_trigger(end->ns);
}

#include "pairs.bpf.h"

#endif
