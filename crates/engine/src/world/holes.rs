//! What lost events hide: whose state is not known any more, and from when on it can be again.

use super::{World, env};
use crate::{
    states::{lost::Hole, slots::Slot, thread::Place},
    stream::LostCause,
};
use transect_model::{
    ids::{CpuId, MachineKind},
    table::TableSink,
};

impl World {
    pub(super) fn lose_thread(
        &mut self,
        m: usize,
        slot: Slot,
        t: i64,
        until: i64,
        sink: &mut dyn TableSink,
    ) {
        let machine = &mut self.machines[m];
        machine.threads.lose(slot, t, until, env!(self, machine, sink));
        let tid = machine.threads.get(slot).tid;
        machine.works.lose_thread(tid, env!(self, machine, sink));
        machine.waits.lose_thread(tid, env!(self, machine, sink));
        if let Some(v) = machine.threads.get(slot).vcpu {
            self.lose_vcpu(m, v, t, sink);
        }
    }

    pub(super) fn lose_vcpu(&mut self, m: usize, v: usize, t: i64, sink: &mut dyn TableSink) {
        let place = self.vcpus[v].place;
        if place == Place::Gone {
            return;
        }
        self.unqueue(m, v, place);
        let machine = &mut self.machines[m];
        self.vcpus[v].lose(t, env!(self, machine, sink));
    }

    /// A hole in the stream of one CPU.
    pub(crate) fn lose_cpu(&mut self, m: usize, cpu: CpuId, hole: Hole, sink: &mut dyn TableSink) {
        self.record_hole(m, Some(cpu), hole, sink);
        self.causes.lose(m, hole.until.unwrap_or(i64::MAX));
        self.lose_requests();
        self.lose_packets(hole.until.unwrap_or(i64::MAX));
        if self.machines[m].info.kind == MachineKind::Hypervisor {
            self.lose_records(m, Some(cpu), hole, sink);
        }
        let Some(c) = self.cpu(m, cpu) else { return };
        self.hide(m, hole, sink, |place| place == Place::OnCpu(cpu) || place.is_off_cpu());
        self.lose_slices(m, c, hole, sink);
    }

    /// A hole in everything a machine tells.
    pub(crate) fn lose_machine(&mut self, m: usize, hole: Hole, sink: &mut dyn TableSink) {
        self.record_hole(m, None, hole, sink);
        self.causes.lose(m, hole.until.unwrap_or(i64::MAX));
        self.lose_requests();
        self.lose_packets(hole.until.unwrap_or(i64::MAX));
        if self.machines[m].info.kind == MachineKind::Hypervisor {
            self.lose_records(m, None, hole, sink);
        }
        self.hide_all(m, hole, sink);
    }

    /// All streams of a guest have ended while the host's go on: whether nothing happened there or
    /// nothing was recorded is not known.
    pub(crate) fn silence(&mut self, m: usize, t: i64, sink: &mut dyn TableSink) {
        // The cause is told nowhere: this is no hole in a stream, and makes no row.
        let cause = LostCause::GuestDisconnected;
        self.hide_all(m, Hole { from: t, until: None, count: None, cause }, sink);
    }

    fn hide_all(&mut self, m: usize, hole: Hole, sink: &mut dyn TableSink) {
        self.hide(m, hole, sink, |_| true);
        for c in 0..self.machines[m].cpus.len() {
            self.lose_slices(m, c, hole, sink);
        }
    }

    /// Makes every thread unknown whose events the hole can hide.
    fn hide(
        &mut self,
        m: usize,
        hole: Hole,
        sink: &mut dyn TableSink,
        concerns: impl Fn(Place) -> bool,
    ) {
        let (t, until) = (hole.from, hole.until.unwrap_or(i64::MAX));
        let threads = &mut self.machines[m].threads;
        threads.known_from = threads.known_from.max(until);
        threads.hidden_until = threads.hidden_until.max(until);
        let machine = &mut self.machines[m];
        machine.blocks.lose(t, env!(self, machine, sink));
        for slot in 0..self.machines[m].threads.len() {
            if concerns(self.machines[m].threads.get(slot).place) {
                self.lose_thread(m, slot, t, until, sink);
            }
        }
        if !self.machines[m].has_switch {
            // Without the scheduler's events a thread may have moved to this CPU unseen.
            let id = self.machines[m].id;
            for v in 0..self.vcpus.len() {
                if self.machines[self.vcpus[v].machine.0 as usize].info.parent == Some(id) {
                    self.lose_vcpu(m, v, t, sink);
                }
            }
        }
    }

    fn lose_slices(&mut self, m: usize, c: usize, hole: Hole, sink: &mut dyn TableSink) {
        let occupant = self.machines[m].cpus[c].occupant;
        let vcpu = self.vcpu_name(m, occupant);
        let until = hole.until.unwrap_or(i64::MAX);
        let machine = &mut self.machines[m];
        machine.cpus[c].lose(hole.from, until, vcpu, env!(self, machine, sink));
        let id = machine.cpus[c].id;
        machine.works.lose_idle(id, env!(self, machine, sink));
        machine.waits.lose_cpu(id, env!(self, machine, sink));
        if let Some(Some(v)) = machine.vcpu_of_cpu.get(c) {
            self.joins.lose(*v);
        }
        self.blame(m, c, hole.from, sink);
    }

    fn record_hole(&mut self, m: usize, cpu: Option<CpuId>, hole: Hole, sink: &mut dyn TableSink) {
        if hole.until.is_some_and(|until| until <= self.start) {
            return;
        }
        let machine = &mut self.machines[m];
        self.notes.lost(machine.id, cpu, hole.count);
        if hole.until.is_none() {
            self.open_holes.push((machine.id, cpu, hole));
        } else {
            hole.emit(cpu, hole.from, env!(self, machine, sink));
        }
    }
}

impl Place {
    /// Could a hole in any CPU's stream hide what this thread does?
    fn is_off_cpu(self) -> bool {
        !matches!(self, Place::OnCpu(_))
    }
}
