//! The analyses: one file per state machine, each with its boundary state explained on top.
//!
//! Every analysis is init (`new`) / step / finish over a state that is plain data and `Clone`, so
//! that a run can be cut at any point in time and continued from a copy, and its sums can be added
//! up over shards. None of them does I/O or looks at wall-clock time.

pub(crate) mod block;
pub(crate) mod check;
pub(crate) mod counters;
pub(crate) mod effective;
pub(crate) mod exits;
pub(crate) mod irqs;
pub(crate) mod lost;
pub(crate) mod net;
pub(crate) mod pcpu;
pub(crate) mod syscalls;
pub(crate) mod thread;
pub(crate) mod vcpu;
pub(crate) mod wakeups;
pub(crate) mod windows;
pub(crate) mod work;
pub(crate) mod xen;

use crate::wanted::Wanted;
use check::Check;
use effective::Joins;
use transect_model::{
    ids::{CpuId, MachineId, Tid},
    table::TableSink,
};
use windows::Windows;

/// What a step may use besides its own state: where rows go, and the analyses that live on the
/// others' results.
pub(crate) struct Env<'a> {
    pub(crate) sink: &'a mut dyn TableSink,
    /// Rows of other tables are not to be made.
    pub(crate) wants: &'a Wanted,
    /// The recording's start: rows are cut there.
    pub(crate) start: i64,
    /// The machine whose event is being handled.
    pub(crate) machine: MachineId,
    /// Does the machine record `sched_switch`, so that silence tells something?
    pub(crate) deduce: bool,
    /// Are some of the machine's VM exits and entries not recorded, so that the mode of a vCPU does not last?
    pub(crate) partial_exits: bool,
    /// Are any of KVM's events not recorded, whose conditions the recorder was given?
    pub(crate) partial_kvm: bool,
    /// Are wakings recorded, so that a thread that was not seen to be woken sleeps?
    pub(crate) wakings: bool,
    /// Before this, events of some CPU of the machine are missing.
    pub(crate) hidden_until: i64,
    /// Which events of KVM have been seen, so that their absence tells something.
    pub(crate) seen_entry: bool,
    pub(crate) seen_exit: bool,
    pub(crate) seen_halt_end: bool,
    /// For each CPU of the machine the vCPU (index) it is, if the machine is a guest.
    pub(crate) vcpu_of_cpu: &'a [Option<usize>],
    pub(crate) joins: &'a mut Joins,
    pub(crate) windows: &'a mut Windows,
    pub(crate) check: &'a mut Check,
}

impl Env<'_> {
    fn vcpu_of(&self, cpu: CpuId) -> Option<usize> {
        self.vcpu_of_cpu.get(cpu.0 as usize).copied().flatten()
    }

    /// A thread gets a CPU of the machine; matters if the CPU is a vCPU of the recording.
    fn run_begins(&mut self, cpu: CpuId, tid: Tid, t: i64) {
        if let Some(vcpu) = self.vcpu_of(cpu) {
            self.joins.run_begins(vcpu, tid, t.max(self.start), self.sink);
        }
    }

    /// A thread's running interval is complete. If the join of guest and host emits it, returns its
    /// end.
    fn run_ends(&mut self, cpu: CpuId, tid: Tid, from: i64, to: i64) -> Option<i64> {
        let vcpu = self.vcpu_of(cpu)?;
        Some(self.joins.run_ends(vcpu, tid, from, to, self.sink))
    }
}
