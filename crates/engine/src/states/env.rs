//! The environment of a step of an analysis.

use super::{check::Check, effective::Joins, windows::Windows};
use crate::wanted::Wanted;
use transect_model::{
    ids::{CpuId, MachineId, Tid},
    table::TableSink,
};

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
    pub(crate) is_dom0: bool,
    pub(crate) joins: &'a mut Joins,
    pub(crate) windows: &'a mut Windows,
    pub(crate) check: &'a mut Check,
}

impl Env<'_> {
    fn vcpu_of(&self, cpu: CpuId) -> Option<usize> {
        self.vcpu_of_cpu.get(cpu.0 as usize).copied().flatten()
    }

    /// A thread gets a CPU of the machine; matters if the CPU is a vCPU of the recording.
    pub(super) fn run_begins(&mut self, cpu: CpuId, tid: Tid, t: i64) {
        if let Some(vcpu) = self.vcpu_of(cpu) {
            self.joins.run_begins(vcpu, tid, t.max(self.start), self.sink);
        }
    }

    /// A thread's running interval is complete. If the join of guest and host emits it, returns its
    /// end.
    pub(super) fn run_ends(&mut self, cpu: CpuId, tid: Tid, from: i64, to: i64) -> Option<i64> {
        let vcpu = self.vcpu_of(cpu)?;
        Some(self.joins.run_ends(vcpu, tid, from, to, self.sink))
    }
}
