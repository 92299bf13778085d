/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The pairs that fold: system calls, interrupts, softirqs, vectors, VM exits, injections. Each END chooses the
 * shortest record that holds it and its BEGIN. Included by log.bpf.h, which holds BEGINs back.
 */
#ifndef TRANSECT_PAIRS_H
#define TRANSECT_PAIRS_H

static __always_inline int log_sys_enter(u64 nr)
{
	return log_begin(PAIR_SYSCALL, WORD0(SYS_ENTER, (u32)nr), 0, 0);
}

static __always_inline void log_sys_exit_alone(struct end *end, u64 nr, s64 ret)
{
	if ((u32)nr < 1024 && ret >= -(1 << 23) && ret < (1 << 23))
		log_end_alone(end, 1, WORD0(SYS_EXIT_S, (u32)nr | (ret & 0xffffff) << 10), 0);
	else
		log_end_alone(end, 2, WORD0(SYS_EXIT, (u32)nr), ret);
}

static __always_inline int log_sys_exit(u64 nr, s64 ret)
{
	struct end end = log_end(WORD0(SYS_ENTER, (u32)nr), ~0ull);

	if (!end.log)
		return 0;
	log_end_trigger(&end, SYSCALL, PAIR_SYSCALL);
	if (end.folds && (u32)nr < 512 && end.dur_ns < 1 << 15 && (u64)(ret + 64) < 1024)
		log_fold(&end, cfg.syscall_min_ns, 1,
			 WORD0(SYSCALL_S, (u32)nr | end.dur_ns << 9 | (u64)(ret + 64) << 24), 0, 0);
	else if (end.folds && (u32)nr < 1024 && end.dur_ns < 1 << 24)
		log_fold(&end, cfg.syscall_min_ns, 2, WORD0(SYSCALL, (u32)nr | end.dur_ns << 10), ret, 0);
	else
		log_sys_exit_alone(&end, nr, ret);
	log_leave(end.log);
	return 0;
}

static __always_inline int log_irq_entry(u32 irq)
{
	return log_begin(PAIR_IRQ, WORD0(IRQ_ENTRY, irq), 0, 0);
}

static __always_inline int log_irq_exit(u32 irq, bool handled)
{
	struct end end = log_end(WORD0(IRQ_ENTRY, irq), ~0ull);

	if (!end.log)
		return 0;
	log_end_trigger(&end, IRQ, PAIR_IRQ);
	if (end.folds && irq < 8192 && end.dur_ns < 1 << 20)
		log_fold(&end, cfg.irq_min_ns, 1, WORD0(IRQ, irq | (u64)handled << 13 | end.dur_ns << 14), 0, 0);
	else
		log_end_alone(&end, 1, WORD0(IRQ_EXIT, irq | (u64)handled << 32), 0);
	log_leave(end.log);
	return 0;
}

static __always_inline int log_softirq_entry(u32 vector)
{
	return log_begin(PAIR_SOFTIRQ, WORD0(SOFTIRQ_ENTRY, vector & 15), 0, 0);
}

static __always_inline int log_softirq_exit(u32 vector)
{
	struct end end = log_end(WORD0(SOFTIRQ_ENTRY, vector & 15), ~0ull);

	if (!end.log)
		return 0;
	log_end_trigger(&end, SOFTIRQ, PAIR_SOFTIRQ);
	if (end.folds && end.dur_ns < 1 << 30)
		log_fold(&end, cfg.softirq_min_ns, 1, WORD0(SOFTIRQ, (vector & 15) | end.dur_ns << 4), 0, 0);
	else
		log_end_alone(&end, 1, WORD0(SOFTIRQ_EXIT, vector & 15), 0);
	log_leave(end.log);
	return 0;
}

static __always_inline u64 vector_field(u32 vector, u32 source)
{
	return (vector & 0xff) | (u64)source << 8;
}

static __always_inline int log_vector_entry(u32 vector, u32 source)
{
	return log_begin(PAIR_VECTOR, WORD0(VECTOR_ENTRY, vector_field(vector, source)), 0, 0);
}

static __always_inline int log_vector_exit(u32 vector, u32 source)
{
	u64 field = vector_field(vector, source);
	struct end end = log_end(WORD0(VECTOR_ENTRY, field), ~0ull);

	if (!end.log)
		return 0;
	if (end.folds && end.dur_ns < 1 << 22)
		log_fold(&end, cfg.irq_min_ns, 1, WORD0(VECTOR, field | end.dur_ns << 12), 0, 0);
	else
		log_end_alone(&end, 1, WORD0(VECTOR_EXIT, field), 0);
	log_leave(end.log);
	return 0;
}

/* SVM's "invalid" is -1 and becomes 0xffff; bit 31 is VMX's "entry failed". */
static __always_inline u64 kvm_exit_word(u32 reason, u32 vcpu)
{
	u64 failed = reason == 0xffffffff ? 0 : reason >> 31;

	return WORD0(KVM_EXIT, (reason & 0xffff) | (u64)(vcpu & 0xffff) << 16 | failed << 32);
}

static __always_inline int log_kvm_exit_begin(u32 reason, u32 vcpu, u64 rip, u64 info1)
{
	return log_begin(PAIR_KVM, kvm_exit_word(reason, vcpu), rip, info1);
}

/* An entry behind an injection. */
static __always_inline void log_inj_entry(struct end *end, u32 vcpu)
{
	struct log *log = end->log;
	u64 vector = log->pending_w0 >> 30, dur_ns = end->dur_ns;

	if ((s64)dur_ns < 0)
		dur_ns = 0;
	if (vector < 256 && vcpu < 255 && dur_ns < 1 << 18) {
		log->pending_w0 = 0;
		log_emit(log, end->begin_ns, dur_ns, 2, 1, WORD0(KVM_INJ_ENTRY, vector | (u64)vcpu << 8 | dur_ns << 16), 0, 0);
	} else {
		log_end_alone(end, 1, WORD0(KVM_ENTRY, vcpu & 0xffff), 0);
	}
}

/* An entry behind an exit of the same vCPU, in the shortest form that the fields of both fit. */
static __always_inline void log_exit_entry(struct end *end, u32 vcpu)
{
	struct log *log = end->log;
	u64 a = log->pending_w0 >> 30, reason = a & 0xffff, rip = log->pending_w1, info1 = log->pending_w2;
	u64 what = reason | (u64)vcpu << 12 | info1 << 24;
	u32 slot = exit_slot(what, rip);
	bool written;

	if (reason >= 4096 || a >> 32 || vcpu >= 4095 || end->dur_ns >> 32 || info1 >> 32) {
		log_end_alone(end, 1, WORD0(KVM_ENTRY, vcpu & 0xffff), 0);
		return;
	}
	if (end->dur_ns < 1 << 30 && log_has_told(log, slot, what, rip)) {
		log_fold(end, cfg.exit_min_ns, 1, WORD0(KVM_EXIT_ENTRY_R, slot | end->dur_ns << 4), 0, 0);
		return;
	}
	/* Surely in the chunk that has the full rip: not at its very end. */
	if (info1 < 1024 && log->has_rip && log->rip_high == rip >> 32 && log_stays_in_chunk(log)) {
		written = log_fold(end, cfg.exit_min_ns, 2, WORD0(KVM_EXIT_ENTRY_S, what), end->dur_ns | rip << 32, 0);
	} else {
		written = log_fold(end, cfg.exit_min_ns, 3, WORD0(KVM_EXIT_ENTRY, what & 0xffffff), rip,
				   end->dur_ns | info1 << 32);
		if (written)
			log_remember_rip(log, rip);
	}
	if (written)
		log_remember_exit(log, slot, what, rip);
}

static __always_inline int log_kvm_entry(u32 vcpu)
{
	/* Same vCPU, any reason. */
	struct end end = log_end(WORD0(KVM_EXIT, (u64)(vcpu & 0xffff) << 16), WORD0(63, 0xffffull << 16));

	if (!end.log)
		return 0;
	log_end_trigger(&end, KVM_EXIT_ENTRY, PAIR_KVM);
	if (end.folds)
		log_exit_entry(&end, vcpu);
	else if ((end.log->pending_w0 & 63) == KVM_INJ_VIRQ)
		log_inj_entry(&end, vcpu);
	else
		log_end_alone(&end, 1, WORD0(KVM_ENTRY, vcpu & 0xffff), 0);
	log_leave(end.log);
	return 0;
}

#endif
