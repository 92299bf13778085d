// SPDX-License-Identifier: GPL-2.0
/*
 * KVM on x86 (arch/x86/kvm/trace.h, include/trace/events/kvm.h).
 *
 * kvm_exit hands over (vcpu, isa) since 5.18 and computes reason, rip and info inside the
 * tracepoint's own code, which a BTF program does not see. Two programs:
 *  - kvm_exit_svm reads them from the VMCB, where SVM has them after every exit (svm_get_exit_info);
 *  - kvm_exit_classic is a program on the classic tracepoint, whose fields the kernel fills in. It
 *    costs the copy that perf makes, and works wherever the event is: on VMX rip is not cached
 *    and cannot be read (VMREAD), and older kernels have other arguments.
 * The loader takes the first that this kernel allows and says which.
 */

/* (vcpu) since 5.11, (vcpu, force_immediate_exit) since 6.8. */
SEC("tp_btf/kvm_entry")
int BPF_PROG(kvm_entry, struct kvm_vcpu *vcpu)
{
	if (!wanted_here())
		return 0;
	stack_exit_ends();
	return log_kvm_entry(vcpu->vcpu_id);
}

SEC("tp_btf/kvm_exit")
int BPF_PROG(kvm_exit_svm, struct kvm_vcpu *vcpu)
{
	struct vmcb *vmcb;
	u64 info1 = 0;
	u32 reason = 0;

	if (!wanted_here())
		return 0;
	vmcb = BPF_CORE_READ((struct vcpu_svm *)vcpu, vmcb);
	bpf_core_read(&reason, sizeof(reason), &vmcb->control.exit_code);
	bpf_core_read(&info1, sizeof(info1), &vmcb->control.exit_info_1);
	return log_kvm_exit_begin(reason, vcpu->vcpu_id, vcpu->arch.regs[16], info1);
}

SEC("tp/kvm/kvm_exit")
int kvm_exit_classic(struct trace_event_raw_kvm_exit *ctx)
{
	if (!wanted_here())
		return 0;
	return log_kvm_exit_begin(ctx->exit_reason, ctx->vcpu_id, ctx->guest_rip, ctx->info1);
}

SEC("tp_btf/kvm_hypercall")
int BPF_PROG(kvm_hypercall, unsigned long nr, unsigned long arg0, unsigned long arg1,
	     unsigned long arg2, unsigned long arg3)
{
	if (!wanted_here())
		return 0;
	return log_hypercall(nr, arg0, arg1, arg2, arg3);
}

SEC("tp_btf/kvm_userspace_exit")
int BPF_PROG(kvm_userspace_exit, u32 reason, int error)
{
	if (!wanted_here())
		return 0;
	return log_write(KVM_USERSPACE_EXIT, (reason & 0xffff) | (u64)(error & 0xffff) << 16);
}

SEC("tp_btf/kvm_halt_poll_ns")
int BPF_PROG(kvm_halt_poll_ns, bool grow, unsigned int vcpu, unsigned int new_ns, unsigned int old_ns)
{
	if (!wanted_here())
		return 0;
	return log_write2(KVM_HALT_POLL, vcpu & 0xffff, new_ns | (u64)old_ns << 32);
}

SEC("tp_btf/kvm_vcpu_wakeup")
int BPF_PROG(kvm_vcpu_wakeup, u64 ns, bool waited, bool valid)
{
	if (!wanted_here())
		return 0;
	if (ns >> 32) {
		ns = 0xffffffff;
		log_saturated();
	}
	return log_write(KVM_VCPU_WAKEUP, ns | (u64)waited << 32 | (u64)valid << 33);
}

/* What a guest writes to a port or an address, at most 8 bytes of it. */
static __always_inline u64 kvm_value(const void *data, u32 bytes)
{
	u64 value = 0;

	if (bytes >= 8)
		bpf_probe_read_kernel(&value, 8, data);
	else if (bytes >= 4)
		bpf_probe_read_kernel(&value, 4, data);
	else if (bytes >= 2)
		bpf_probe_read_kernel(&value, 2, data);
	else
		bpf_probe_read_kernel(&value, 1, data);
	return value;
}

#define PIO_OUT 1

/* (access, port, size, count, data). The verifier of 6.1 and others lets no program read an argument of the type
 * "const void *" (btf_ctx_access), so the last one is read as memory. */
SEC("tp_btf/kvm_pio")
int BPF_PROG(kvm_pio, unsigned int access, unsigned int port, unsigned int size, unsigned int count)
{
	u64 log2 = size >= 8 ? 3 : size >= 4 ? 2 : size >= 2 ? 1 : 0;
	const void *data = NULL;

	if (!wanted_here())
		return 0;
	if (access == PIO_OUT)
		stack_doorbell();
	if (cfg.causes && access == PIO_OUT) {
		bpf_probe_read_kernel(&data, sizeof(data), &ctx[4]);
		return log_other_as(KVM_PIO, OTHER_KVM_PIO, 1 | log2 << 2 | (u64)(port & 0xffff) << 4, count,
				    kvm_value(data, size));
	}
	if (count > 0x3fff) {
		count = 0x3fff;
		log_saturated();
	}
	return log_write(KVM_PIO, (access & 3) | log2 << 2 | (u64)(port & 0xffff) << 4 | (u64)count << 20);
}

/* The kernel's types are 0 unsatisfied read, 1 read, 2 write. */
SEC("tp_btf/kvm_mmio")
int BPF_PROG(kvm_mmio, int type, int len, u64 gpa, void *val)
{
	u64 access = type == 1 ? 0 : type == 2 ? 1 : 2;

	if (!wanted_here())
		return 0;
	if (access == 1)
		stack_doorbell();
	if (cfg.causes && access == 1)
		return log_other_as(KVM_MMIO, OTHER_KVM_MMIO, access | (u64)(len & 0xff) << 2, gpa,
				    kvm_value(val, len));
	return log_write2(KVM_MMIO, access | (u64)(len & 0xff) << 2, gpa);
}

SEC("tp_btf/kvm_fast_mmio")
int BPF_PROG(kvm_fast_mmio, u64 gpa)
{
	if (!wanted_here())
		return 0;
	stack_doorbell();
	return log_write2(KVM_FAST_MMIO, 0, gpa);
}

/* (fault_address, error_code) until 6.1, (vcpu, fault_address, error_code) since 6.2. */
SEC("tp_btf/kvm_page_fault")
int kvm_page_fault(u64 *ctx)
{
	bool has_vcpu = bpf_core_field_exists(struct trace_event_raw_kvm_page_fault, vcpu_id);
	u64 arguments[3] = {}, gpa, error_code;

	if (!wanted_here())
		return 0;
	/* Read as memory: clang would make one access at a computed offset, which is refused. */
	bpf_probe_read_kernel(arguments, sizeof(arguments), ctx);
	gpa = has_vcpu ? arguments[1] : arguments[0];
	error_code = has_vcpu ? arguments[2] : arguments[1];
	if (error_code <= A_MAX)
		return log_write2(KVM_PAGE_FAULT, error_code, gpa);
	return log_write3(KVM_PAGE_FAULT_L, 0, gpa, error_code);
}

SEC("tp_btf/kvm_set_irq")
int BPF_PROG(kvm_set_irq, unsigned int gsi, int level)
{
	if (!wanted_here())
		return 0;
	return log_write(KVM_SET_IRQ, gsi | (u64)(level != 0) << 32);
}

SEC("tp_btf/kvm_msi_set_irq")
int BPF_PROG(kvm_msi_set_irq, u64 address, u64 data)
{
	if (!wanted_here())
		return 0;
	return log_write3(KVM_MSI, 0, address, data);
}

/* (vector) until 5.19, (vector, soft, reinjected) since 6.0. */
SEC("tp_btf/kvm_inj_virq")
int kvm_inj_virq(u64 *ctx)
{
	bool told = bpf_core_field_exists(struct trace_event_raw_kvm_inj_virq, reinjected);
	u64 arguments[3] = {};

	if (!wanted_here())
		return 0;
	/* Read as memory: an argument that a kernel lacks is refused. */
	bpf_probe_read_kernel(arguments, sizeof(arguments), ctx);
	if (cfg.causes && told && (u8)arguments[2])
		return log_other_as(KVM_INJ_VIRQ, OTHER_KVM_INJ_VIRQ, 0, (u32)arguments[0], 0);
	return log_inj_virq((u32)arguments[0]);
}

/* A vCPU's local APIC takes an interrupt, in the context of its sender. The first argument is the vCPU's number
 * (arch/x86/kvm/lapic.c). */
static __always_inline int kvm_accept(void *ctx, u32 vcpu, u32 mode, u32 vector, u32 hardware)
{
	u64 a = (vector & 0xff) | (vcpu & 0xffff) << 8 | (u64)(mode & 7) << 24 | (u64)hardware << 27;

	log_write_event(KVM_ACCEPT, KVM_ACCEPT, 1, a, 0, 0, stack_here(ctx, STACK_ACCEPT, 0));
	return 0;
}

SEC("tp_btf/kvm_apic_accept_irq")
int BPF_PROG(kvm_apic_accept_irq, u32 vcpu, u16 mode, u16 trigger, u8 vector)
{
	if (!wanted_here())
		return 0;
	return kvm_accept(ctx, vcpu, mode >> 8, vector, 0);
}

SEC("tp_btf/kvm_apicv_accept_irq")
int BPF_PROG(kvm_apicv_accept_irq, u32 vcpu, u16 mode, u16 trigger, u8 vector)
{
	if (!wanted_here())
		return 0;
	return kvm_accept(ctx, vcpu, mode >> 8, vector, 1);
}

SEC("tp_btf/kvm_write_tsc_offset")
int BPF_PROG(kvm_write_tsc_offset, unsigned int vcpu, u64 previous, u64 next)
{
	if (!wanted_here())
		return 0;
	return log_write3(KVM_TSC_OFFSET, vcpu & 0xffff, previous, next);
}
