//! The tracers that are compared, each around the same load.

mod collector;
mod live;
mod ours;
mod perf;
mod splice;
mod trace_cmd;

pub use collector::Collector;
pub use live::Live;
pub use ours::{Record, traced};
pub use perf::{Perf, Recording, counts};
pub use splice::Splice;
pub use trace_cmd::TraceCmd;

use crate::{bed::Bed, roles::Traced};
use anyhow::Result;

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

/// What is asked of a tracer.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// What it traces, on all CPUs.
    pub events: Events,
    /// Its buffer memory on each CPU.
    pub buffer_kib: u32,
    /// Whether its consumer has a CPU for itself (else it competes like any program).
    pub consumer_alone: bool,
}

impl Wish {
    fn place(&self, words: Vec<String>) -> Vec<String> {
        if self.consumer_alone { crate::bed::on_consumer_cpu(words) } else { words }
    }
}

/// Something that traces.
pub trait Tracer {
    /// Its name in rows.
    fn name(&self) -> String;

    /// Why it cannot be had here.
    fn why_not(&self, _bed: &Bed) -> Option<String> {
        None
    }

    /// Which share of the events it is meant to see; `None` if it does not look.
    fn share(&self) -> Option<f64> {
        Some(1.0)
    }

    /// Runs `load` while tracing; gives the load's output and what was traced.
    ///
    /// # Errors
    /// If the tracer or the load fails.
    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)>;
}

/// No tracer: what is measured around it must be nothing.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Tracer for Nothing {
    fn name(&self) -> String {
        "nothing".to_owned()
    }

    fn share(&self) -> Option<f64> {
        None
    }

    fn around(&self, _bed: &Bed, _wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        Ok((crate::bed::output(load)?, Traced::default()))
    }
}
