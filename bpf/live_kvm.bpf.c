// SPDX-License-Identifier: GPL-2.0
/*
 * vCPUs: guest mode, exits by reason, halts, device accesses and interrupts (see kvm.bpf.c for the
 * tracepoints, crates/engine/src/states/vcpu.rs for the states). Each event is in the vCPU thread's own
 * name, on its CPU.
 */

static __always_inline u64 live_on_cpu(struct live_actor *actor, u64 now)
{
	return actor->on_cpu_ns + (actor->in_since && (s64)(now - actor->in_since) > 0 ? now - actor->in_since : 0);
}

SEC("tp_btf/kvm_entry")
int BPF_PROG(live_entry, struct kvm_vcpu *vcpu)
{
	struct live_durations *durations;
	struct live_exit_key key = {};
	struct live_actor *actor;
	u64 now, ns;
	u32 bucket;

	if (cfg.empty)
		return 0;
	now = bpf_ktime_get_ns();
	actor = live_current(now, &key.slot);
	if (!actor)
		return 0;
	live_window(actor, now);
	actor->vcpu = vcpu->vcpu_id;
	actor->flags |= LIVE_HAS_VCPU;
	actor->mode = LIVE_GUEST;
	actor->guest_since = now;
	if (!actor->exit_since)
		return 0;
	ns = now - actor->exit_since;
	actor->exit_since = 0;
	if ((s64)ns < 0)
		return 0;
	key.reason = actor->exit_reason;
	key.window = actor->window;
	key.generation = actor->generation;
	durations = live_durations(&live_exits, &key);
	if (!durations)
		return 0;
	durations->count++;
	durations->total_ns += ns;
	durations->amount += live_on_cpu(actor, now) - actor->exit_on_cpu_ns;
	if (ns > durations->max_ns)
		durations->max_ns = ns;
	bucket = live_bucket(ns);
	barrier_var(bucket);
	if (bucket < LIVE_BUCKETS)
		durations->buckets[bucket]++;
	return 0;
}

static __always_inline int live_exit(u32 vcpu, u32 reason, u64 now)
{
	struct live_actor *actor;
	struct live_sums *sums;
	u32 slot;

	actor = live_current(now, &slot);
	if (!actor)
		return 0;
	sums = live_window(actor, now);
	if (actor->guest_since && (s64)(now - actor->guest_since) > 0)
		sums->guest_ns += now - actor->guest_since;
	actor->guest_since = 0;
	sums->exits++;
	actor->vcpu = vcpu;
	actor->flags |= LIVE_HAS_VCPU;
	actor->mode = LIVE_EXIT;
	actor->exit_reason = reason;
	actor->exit_since = now;
	actor->exit_on_cpu_ns = live_on_cpu(actor, now);
	return 0;
}

SEC("tp_btf/kvm_exit")
int BPF_PROG(live_exit_svm, struct kvm_vcpu *vcpu)
{
	struct vmcb *vmcb;
	u32 reason = 0;

	if (cfg.empty)
		return 0;
	vmcb = BPF_CORE_READ((struct vcpu_svm *)vcpu, vmcb);
	bpf_core_read(&reason, sizeof(reason), &vmcb->control.exit_code);
	return live_exit(vcpu->vcpu_id, reason, bpf_ktime_get_ns());
}

SEC("tp/kvm/kvm_exit")
int live_exit_classic(struct trace_event_raw_kvm_exit *ctx)
{
	if (cfg.empty)
		return 0;
	return live_exit(ctx->vcpu_id, ctx->exit_reason, bpf_ktime_get_ns());
}

SEC("tp_btf/kvm_userspace_exit")
int BPF_PROG(live_userspace_exit)
{
	struct live_actor *actor;
	u32 slot;
	u64 now;

	if (cfg.empty)
		return 0;
	now = bpf_ktime_get_ns();
	actor = live_current(now, &slot);
	if (!actor)
		return 0;
	live_window(actor, now);
	/* Guest mode without a kvm_exit: it is not known where it ended. */
	actor->guest_since = 0;
	actor->mode = LIVE_USER;
	return 0;
}

/* At the end of a halt, with the whole time it took. What was taken for sleep was part of it. */
SEC("tp_btf/kvm_vcpu_wakeup")
int BPF_PROG(live_halt, u64 ns, bool waited)
{
	struct live_actor *actor;
	struct live_sums *sums;
	u64 now, begun, polled;
	u32 slot;

	if (cfg.empty)
		return 0;
	now = bpf_ktime_get_ns();
	actor = live_current(now, &slot);
	if (!actor)
		return 0;
	sums = live_window(actor, now);
	sums->halts++;
	begun = now - ns;
	polled = actor->poll_window_ns;
	actor->poll_window_ns = actor->next_poll_window_ns;
	if (!waited) {
		sums->polled++;
		sums->poll_ns += ns;
		return 0;
	}
	/* It slept: what came before is polling only as far as the window is known to reach. */
	if (actor->asleep_from && (s64)(actor->asleep_from - begun) > 0 && actor->asleep_from - begun < polled)
		polled = actor->asleep_from - begun;
	sums->poll_ns += polled;
	if (actor->asleep_from && actor->asleep_to && (s64)(actor->asleep_to - begun) > 0 && !live_halts(actor)) {
		u64 start = actor->end_ns - cfg.window_ns;
		u64 from = (s64)(start - actor->asleep_from) > 0 ? start : actor->asleep_from;
		u64 slept = (s64)(actor->asleep_to - from) > 0 ? actor->asleep_to - from : 0;

		if (slept > sums->ns[LIVE_ASLEEP])
			slept = sums->ns[LIVE_ASLEEP];
		sums->ns[LIVE_ASLEEP] -= slept;
		sums->ns[LIVE_HALTED] += slept;
	}
	actor->asleep_from = 0;
	return 0;
}

/* At the end of a halt that polled for old_ns at most, before its kvm_vcpu_wakeup (virt/kvm/kvm_main.c). */
SEC("tp_btf/kvm_halt_poll_ns")
int BPF_PROG(live_halt_poll, bool grow, unsigned int vcpu, unsigned int new_ns, unsigned int old_ns)
{
	struct live_actor *actor;
	u32 slot;

	if (cfg.empty)
		return 0;
	actor = live_current(bpf_ktime_get_ns(), &slot);
	if (actor) {
		actor->poll_window_ns = old_ns;
		actor->next_poll_window_ns = new_ns;
	}
	return 0;
}

enum live_what { LIVE_IO, LIVE_IRQ, LIVE_INJECTION };

static __always_inline int live_count(enum live_what what)
{
	struct live_actor *actor;
	struct live_sums *sums;
	u32 slot;
	u64 now;

	if (cfg.empty)
		return 0;
	now = bpf_ktime_get_ns();
	actor = live_current(now, &slot);
	if (!actor)
		return 0;
	sums = live_window(actor, now);
	if (what == LIVE_IO)
		sums->io++;
	else if (what == LIVE_IRQ)
		sums->irqs++;
	else
		sums->injections++;
	return 0;
}

/* Writes: 1 is out. */
SEC("tp_btf/kvm_pio")
int BPF_PROG(live_pio, unsigned int access)
{
	return access == 1 ? live_count(LIVE_IO) : 0;
}

/* 2 is a write. */
SEC("tp_btf/kvm_mmio")
int BPF_PROG(live_mmio, int type)
{
	return type == 2 ? live_count(LIVE_IO) : 0;
}

SEC("tp_btf/kvm_fast_mmio")
int BPF_PROG(live_fast_mmio)
{
	return live_count(LIVE_IO);
}

SEC("tp_btf/kvm_set_irq")
int BPF_PROG(live_set_irq, unsigned int gsi, int level)
{
	return level ? live_count(LIVE_IRQ) : 0;
}

SEC("tp_btf/kvm_msi_set_irq")
int BPF_PROG(live_msi)
{
	return live_count(LIVE_IRQ);
}

SEC("tp_btf/kvm_inj_virq")
int BPF_PROG(live_inj_virq)
{
	return live_count(LIVE_INJECTION);
}
