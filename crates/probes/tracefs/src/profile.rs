//! Profiles: which events answer which question. One flat table; a profile is a set of rows.
//!
//! Names may hold `*` and `?`. An event that this kernel lacks is told and skipped: kernels
//! differ, and guests have no KVM.

/// What a recording is for. Each contains the ones its table rows name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Who had the CPU and who waited: the scheduler only.
    Sched,
    /// The default: the scheduler, KVM's core transitions, interrupts.
    Vm,
    /// `vm` and what an I/O request passes: block, net, system calls.
    Io,
    /// `io` and the interrupts that are no device's: what woke whom, and by which request.
    Explain,
    /// `vm` and what a booting or dying guest does: CPUID, MSRs, control registers, initcalls.
    Boot,
    /// All of the above, every KVM event, timers, work queues, power.
    Full,
}

/// Every profile with its name, in the order help lists them.
pub const PROFILES: &[(&str, Profile)] = &[
    ("sched", Profile::Sched),
    ("vm", Profile::Vm),
    ("io", Profile::Io),
    ("explain", Profile::Explain),
    ("boot", Profile::Boot),
    ("full", Profile::Full),
];

impl Profile {
    /// The profile of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        PROFILES.iter().find(|(known, _)| *known == name).map(|(_, profile)| *profile)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        PROFILES.iter().find(|(_, profile)| *profile == self).map_or("", |(name, _)| *name)
    }

    /// Its events as `(system, event)`, where `event` may hold `*` and `?`.
    pub fn events(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        EVENTS.iter().filter(move |row| row.in_profile(self)).map(|row| (row.system, row.event))
    }
}

/// The smallest profile that holds a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Sched,
    Vm,
    Io,
    Explain,
    Boot,
    Full,
}

struct Event {
    from: From,
    system: &'static str,
    event: &'static str,
}

impl Event {
    fn in_profile(&self, profile: Profile) -> bool {
        match self.from {
            From::Sched => true,
            From::Vm => profile != Profile::Sched,
            From::Io => matches!(profile, Profile::Io | Profile::Explain | Profile::Full),
            From::Explain => matches!(profile, Profile::Explain | Profile::Full),
            From::Boot => matches!(profile, Profile::Boot | Profile::Full),
            From::Full => profile == Profile::Full,
        }
    }
}

const fn row(from: From, system: &'static str, event: &'static str) -> Event {
    Event { from, system, event }
}

const EVENTS: &[Event] = &[
    // Who runs, who is woken, who moves.
    row(From::Sched, "sched", "sched_switch"),
    row(From::Sched, "sched", "sched_waking"),
    row(From::Sched, "sched", "sched_wakeup"),
    row(From::Sched, "sched", "sched_wakeup_new"),
    row(From::Sched, "sched", "sched_migrate_task"),
    row(From::Sched, "sched", "sched_process_fork"),
    row(From::Sched, "sched", "sched_process_exec"),
    row(From::Sched, "sched", "sched_process_exit"),
    row(From::Sched, "task", "task_rename"),
    // The edges of guest mode, and why it was left.
    row(From::Vm, "kvm", "kvm_entry"),
    row(From::Vm, "kvm", "kvm_exit"),
    row(From::Vm, "kvm", "kvm_hypercall"),
    row(From::Vm, "kvm", "kvm_userspace_exit"),
    row(From::Vm, "kvm", "kvm_vcpu_wakeup"),
    row(From::Vm, "kvm", "kvm_halt_poll_ns"),
    // Devices: kicks from the guest, interrupts to it.
    row(From::Vm, "kvm", "kvm_pio"),
    row(From::Vm, "kvm", "kvm_mmio"),
    row(From::Vm, "kvm", "kvm_fast_mmio"),
    row(From::Vm, "kvm", "kvm_set_irq"),
    row(From::Vm, "kvm", "kvm_msi_set_irq"),
    row(From::Vm, "kvm", "kvm_inj_virq"),
    row(From::Vm, "kvm", "kvm_page_fault"),
    // A clock edge moves here.
    row(From::Vm, "kvm", "kvm_write_tsc_offset"),
    // Time that belongs to no thread.
    row(From::Vm, "irq", "irq_handler_entry"),
    row(From::Vm, "irq", "irq_handler_exit"),
    row(From::Vm, "irq", "softirq_raise"),
    row(From::Vm, "irq", "softirq_entry"),
    row(From::Vm, "irq", "softirq_exit"),
    // The host's end of an I/O request.
    row(From::Io, "block", "block_rq_insert"),
    row(From::Io, "block", "block_rq_issue"),
    row(From::Io, "block", "block_rq_complete"),
    row(From::Io, "net", "net_dev_queue"),
    row(From::Io, "net", "net_dev_start_xmit"),
    row(From::Io, "net", "net_dev_xmit"),
    row(From::Io, "net", "netif_receive_skb"),
    row(From::Io, "napi", "napi_poll"),
    row(From::Io, "raw_syscalls", "sys_enter"),
    row(From::Io, "raw_syscalls", "sys_exit"),
    // The CPU's own timer, and what CPUs ask of one another (x86). The rest of the system is the assignment of vectors.
    row(From::Explain, "irq_vectors", "*_entry"),
    row(From::Explain, "irq_vectors", "*_exit"),
    // What an interrupt does on its way into a vCPU.
    row(From::Explain, "kvm", "kvm_apic_accept_irq"),
    row(From::Explain, "kvm", "kvm_apicv_accept_irq"),
    // What threads wait for besides each other.
    row(From::Explain, "workqueue", "workqueue_queue_work"),
    row(From::Explain, "workqueue", "workqueue_execute_start"),
    row(From::Explain, "workqueue", "workqueue_execute_end"),
    row(From::Explain, "lock", "contention_begin"),
    row(From::Explain, "lock", "contention_end"),
    row(From::Explain, "vmscan", "mm_vmscan_direct_reclaim_*"),
    row(From::Explain, "vmscan", "mm_vmscan_memcg_reclaim_*"),
    // What firmware and early kernels do.
    row(From::Boot, "kvm", "kvm_cpuid"),
    row(From::Boot, "kvm", "kvm_msr"),
    row(From::Boot, "kvm", "kvm_cr"),
    row(From::Boot, "kvm", "kvm_apic*"),
    row(From::Boot, "kvm", "kvm_emulate_insn"),
    row(From::Boot, "initcall", "initcall_*"),
    row(From::Boot, "module", "module_load"),
    // Everything KVM says, and what wakes and idles CPUs.
    row(From::Full, "kvm", "*"),
    row(From::Full, "timer", "*"),
    row(From::Full, "workqueue", "*"),
    row(From::Full, "power", "cpu_idle"),
    row(From::Full, "power", "cpu_frequency"),
    row(From::Full, "ipi", "*"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_nest_as_documented() {
        let events = |p: Profile| p.events().collect::<Vec<_>>();
        for (name, profile) in PROFILES {
            assert_eq!(Profile::from_name(name), Some(*profile));
            assert_eq!(profile.name(), *name);
            assert!(events(Profile::Sched).iter().all(|e| events(*profile).contains(e)), "{name}");
            assert!(events(*profile).iter().all(|e| events(Profile::Full).contains(e)), "{name}");
        }
        assert!(events(Profile::Io).iter().all(|e| events(Profile::Explain).contains(e)));
        assert!(events(Profile::Explain).contains(&("irq", "softirq_raise")));
        assert!(!events(Profile::Io).iter().any(|(system, _)| *system == "irq_vectors"));
        assert!(events(Profile::Vm).contains(&("kvm", "kvm_exit")));
        assert!(!events(Profile::Vm).contains(&("raw_syscalls", "sys_enter")));
        assert_eq!(Profile::from_name("everything"), None);
    }
}
