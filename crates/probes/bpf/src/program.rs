//! The programs of the object: one flat table.

/// A family of events: one file of `bpf/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Who has the CPU and who waits for it.
    Sched,
    /// System calls.
    Syscalls,
    /// Interrupt handlers and softirqs.
    Irq,
    /// Vectors of the CPU's own on x86: its timer, and what CPUs ask of one another.
    Vectors,
    /// KVM on x86.
    Kvm,
    /// Block requests.
    Block,
    /// Packets.
    Net,
    /// Work items of kernel threads.
    Work,
    /// What only tells causes: interrupts that vCPUs accept, work that is queued, and in the records of
    /// other families values of doorbells, numbers of requests and packets, repeated injections.
    Causes,
    /// No events of its own: the stacks of those with which stages of requests and packets begin, as far as other
    /// families have them.
    Stacks,
    /// Waits for locks of the kernel.
    Locks,
    /// Control groups whose quota of CPU time has ended.
    Quota,
    /// Threads that free memory before they get some.
    Memory,
}

/// Every family, in the order in which they are described.
pub const FAMILIES: [Family; 13] = [
    Family::Sched,
    Family::Kvm,
    Family::Irq,
    Family::Vectors,
    Family::Block,
    Family::Net,
    Family::Syscalls,
    Family::Work,
    Family::Causes,
    Family::Stacks,
    Family::Locks,
    Family::Quota,
    Family::Memory,
];

/// One program of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its name in the object.
    pub name: &'static str,
    /// The event it records, spelled as tracefs spells it.
    pub event: &'static str,
    /// Its family.
    pub family: Family,
    /// Taken when a plan names the family; other events must be named.
    pub usual: bool,
}

impl Program {
    /// The event's name without its system: that of the tracepoint.
    pub fn tracepoint(&self) -> &'static str {
        self.event.split_once(':').map_or(self.event, |(_, name)| name)
    }

    /// Does its event have a stack, if stacks are wanted? Of wakings, only those by which a doorbell is answered do.
    pub fn has_stack(&self) -> bool {
        const WITH: [&str; 6] = [
            "block_rq_issue",
            "block_bio_queue",
            "net_dev_start_xmit",
            "netif_receive_skb",
            "kvm_apic_accept_irq",
            "kvm_apicv_accept_irq",
        ];
        WITH.contains(&self.name)
    }
}

const fn row(name: &'static str, event: &'static str, family: Family) -> Program {
    Program { name, event, family, usual: true }
}

const fn seldom(name: &'static str, event: &'static str, family: Family) -> Program {
    Program { name, event, family, usual: false }
}

/// The program that reads the exit from the VMCB.
pub(crate) const KVM_EXIT_SVM: &str = "kvm_exit_svm";
/// The programs on functions of the kernel: where it has no tracepoint.
pub(crate) const THROTTLE: &str = "throttle_cfs_rq";
pub(crate) const UNTHROTTLE: &str = "unthrottle_cfs_rq";
/// The program on the classic tracepoint.
pub(crate) const KVM_EXIT_CLASSIC: &str = "kvm_exit_classic";

/// Every recording program. Two rows of one event are alternatives, the better one first.
pub const PROGRAMS: &[Program] = &[
    row("sched_switch", "sched:sched_switch", Family::Sched),
    row("sched_waking", "sched:sched_waking", Family::Sched),
    row("sched_wakeup_new", "sched:sched_wakeup_new", Family::Sched),
    row("sched_migrate_task", "sched:sched_migrate_task", Family::Sched),
    row("sched_process_fork", "sched:sched_process_fork", Family::Sched),
    row("sched_process_exec", "sched:sched_process_exec", Family::Sched),
    row("sched_process_exit", "sched:sched_process_exit", Family::Sched),
    row("task_rename", "task:task_rename", Family::Sched),
    row("kvm_entry", "kvm:kvm_entry", Family::Kvm),
    row(KVM_EXIT_SVM, "kvm:kvm_exit", Family::Kvm),
    row(KVM_EXIT_CLASSIC, "kvm:kvm_exit", Family::Kvm),
    row("kvm_hypercall", "kvm:kvm_hypercall", Family::Kvm),
    row("kvm_userspace_exit", "kvm:kvm_userspace_exit", Family::Kvm),
    row("kvm_halt_poll_ns", "kvm:kvm_halt_poll_ns", Family::Kvm),
    row("kvm_vcpu_wakeup", "kvm:kvm_vcpu_wakeup", Family::Kvm),
    row("kvm_pio", "kvm:kvm_pio", Family::Kvm),
    row("kvm_mmio", "kvm:kvm_mmio", Family::Kvm),
    row("kvm_fast_mmio", "kvm:kvm_fast_mmio", Family::Kvm),
    row("kvm_msi_set_irq", "kvm:kvm_msi_set_irq", Family::Kvm),
    row("kvm_set_irq", "kvm:kvm_set_irq", Family::Kvm),
    row("kvm_inj_virq", "kvm:kvm_inj_virq", Family::Kvm),
    row("kvm_page_fault", "kvm:kvm_page_fault", Family::Kvm),
    row("kvm_write_tsc_offset", "kvm:kvm_write_tsc_offset", Family::Kvm),
    row("irq_handler_entry", "irq:irq_handler_entry", Family::Irq),
    row("irq_handler_exit", "irq:irq_handler_exit", Family::Irq),
    row("softirq_entry", "irq:softirq_entry", Family::Irq),
    row("softirq_exit", "irq:softirq_exit", Family::Irq),
    seldom("softirq_raise", "irq:softirq_raise", Family::Irq),
    row("local_timer_entry", "irq_vectors:local_timer_entry", Family::Vectors),
    row("local_timer_exit", "irq_vectors:local_timer_exit", Family::Vectors),
    row("reschedule_entry", "irq_vectors:reschedule_entry", Family::Vectors),
    row("reschedule_exit", "irq_vectors:reschedule_exit", Family::Vectors),
    row("call_function_entry", "irq_vectors:call_function_entry", Family::Vectors),
    row("call_function_exit", "irq_vectors:call_function_exit", Family::Vectors),
    row("call_function_single_entry", "irq_vectors:call_function_single_entry", Family::Vectors),
    row("call_function_single_exit", "irq_vectors:call_function_single_exit", Family::Vectors),
    row("irq_work_entry", "irq_vectors:irq_work_entry", Family::Vectors),
    row("irq_work_exit", "irq_vectors:irq_work_exit", Family::Vectors),
    row("x86_platform_ipi_entry", "irq_vectors:x86_platform_ipi_entry", Family::Vectors),
    row("x86_platform_ipi_exit", "irq_vectors:x86_platform_ipi_exit", Family::Vectors),
    row("thermal_apic_entry", "irq_vectors:thermal_apic_entry", Family::Vectors),
    row("thermal_apic_exit", "irq_vectors:thermal_apic_exit", Family::Vectors),
    row("threshold_apic_entry", "irq_vectors:threshold_apic_entry", Family::Vectors),
    row("threshold_apic_exit", "irq_vectors:threshold_apic_exit", Family::Vectors),
    row("deferred_error_apic_entry", "irq_vectors:deferred_error_apic_entry", Family::Vectors),
    row("deferred_error_apic_exit", "irq_vectors:deferred_error_apic_exit", Family::Vectors),
    row("spurious_apic_entry", "irq_vectors:spurious_apic_entry", Family::Vectors),
    row("spurious_apic_exit", "irq_vectors:spurious_apic_exit", Family::Vectors),
    row("error_apic_entry", "irq_vectors:error_apic_entry", Family::Vectors),
    row("error_apic_exit", "irq_vectors:error_apic_exit", Family::Vectors),
    row("block_rq_insert", "block:block_rq_insert", Family::Block),
    row("block_rq_issue", "block:block_rq_issue", Family::Block),
    row("block_rq_complete", "block:block_rq_complete", Family::Block),
    seldom("block_bio_queue", "block:block_bio_queue", Family::Block),
    seldom("block_bio_complete", "block:block_bio_complete", Family::Block),
    row("net_dev_xmit", "net:net_dev_xmit", Family::Net),
    row("netif_receive_skb", "net:netif_receive_skb", Family::Net),
    row("sys_enter", "raw_syscalls:sys_enter", Family::Syscalls),
    row("sys_exit", "raw_syscalls:sys_exit", Family::Syscalls),
    row("workqueue_execute_start", "workqueue:workqueue_execute_start", Family::Work),
    row("workqueue_execute_end", "workqueue:workqueue_execute_end", Family::Work),
    row("kvm_apic_accept_irq", "kvm:kvm_apic_accept_irq", Family::Causes),
    row("kvm_apicv_accept_irq", "kvm:kvm_apicv_accept_irq", Family::Causes),
    row("net_dev_start_xmit", "net:net_dev_start_xmit", Family::Causes),
    row("workqueue_queue_work", "workqueue:workqueue_queue_work", Family::Causes),
    row("contention_begin", "lock:contention_begin", Family::Locks),
    row("contention_end", "lock:contention_end", Family::Locks),
    row(THROTTLE, "transect:throttle", Family::Quota),
    row(UNTHROTTLE, "transect:unthrottle", Family::Quota),
    row("mm_vmscan_direct_reclaim_begin", "vmscan:mm_vmscan_direct_reclaim_begin", Family::Memory),
    row("mm_vmscan_direct_reclaim_end", "vmscan:mm_vmscan_direct_reclaim_end", Family::Memory),
    row("mm_vmscan_memcg_reclaim_begin", "vmscan:mm_vmscan_memcg_reclaim_begin", Family::Memory),
    row("mm_vmscan_memcg_reclaim_end", "vmscan:mm_vmscan_memcg_reclaim_end", Family::Memory),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_events_have_a_system() {
        for (at, program) in PROGRAMS.iter().enumerate() {
            assert!(PROGRAMS[..at].iter().all(|other| other.name != program.name));
            assert_eq!(program.event.split(':').count(), 2, "{}", program.event);
        }
    }
}
