//! What the tracers are asked to trace.

/// Tracepoints as `SYSTEM:EVENT`, the same for every tracer.
pub type Events = &'static [&'static str];

/// Entry and exit of system calls.
pub const SYSCALLS: Events = &["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"];
/// Switches alone.
pub const SWITCHES: Events = &["sched:sched_switch"];
/// Scheduler, system calls, interrupts, disk: what a mixed recording holds.
pub const MIXED: Events = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "raw_syscalls:sys_enter",
    "raw_syscalls:sys_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
    "block:block_rq_insert",
    "block:block_rq_issue",
    "block:block_rq_complete",
];

/// Scheduler, KVM, interrupts: what a recording of VMs holds.
pub const VM: Events = &[
    "sched:sched_switch",
    "sched:sched_waking",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "sched:sched_process_fork",
    "sched:sched_process_exec",
    "sched:sched_process_exit",
    "kvm:kvm_entry",
    "kvm:kvm_exit",
    "kvm:kvm_hypercall",
    "kvm:kvm_userspace_exit",
    "kvm:kvm_halt_poll_ns",
    "kvm:kvm_vcpu_wakeup",
    "kvm:kvm_pio",
    "kvm:kvm_mmio",
    "kvm:kvm_fast_mmio",
    "kvm:kvm_msi_set_irq",
    "kvm:kvm_set_irq",
    "kvm:kvm_inj_virq",
    "kvm:kvm_page_fault",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
];
