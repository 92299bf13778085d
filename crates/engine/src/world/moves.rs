//! Who is where: threads, their vCPUs and CPUs change together, and those who wait for a CPU have
//! whoever is on it to blame.

use super::{World, env};
use crate::states::{
    occupant::Occupant,
    slots::Slot,
    thread::{Deduced, Place},
    vcpu::By,
};
use transect_model::table::TableSink;

impl World {
    /// A thread's place changes, and its vCPU's with it.
    pub(crate) fn change(
        &mut self,
        m: usize,
        slot: Slot,
        t: i64,
        told: Option<Place>,
        new: Place,
        sink: &mut dyn TableSink,
    ) {
        let machine = &mut self.machines[m];
        let deduced = machine.threads.change(slot, t, told, new, env!(self, machine, sink));
        self.moved(m, slot, t, deduced, sink);
    }

    /// Moves the vCPU of a thread whose place has changed.
    pub(crate) fn moved(
        &mut self,
        m: usize,
        slot: Slot,
        t: i64,
        deduced: Option<Deduced>,
        sink: &mut dyn TableSink,
    ) {
        let machine = &mut self.machines[m];
        let thread = machine.threads.get(slot);
        let (new, vcpu, tid) = (thread.place, thread.vcpu, thread.tid);
        if new == Place::Unknown {
            machine.works.lose_thread(tid, env!(self, machine, sink));
            machine.waits.lose_thread(tid, env!(self, machine, sink));
        }
        let Some(v) = vcpu else { return };
        if new == Place::Unknown {
            return self.lose_vcpu(m, v, t, sink);
        }
        let old = self.vcpus[v].place;
        self.unqueue(m, v, old);
        let mut by = By::default();
        if let Place::Waiting { cpu: Some(cpu), .. } = new
            && let Some(c) = self.cpu(m, cpu)
        {
            self.machines[m].cpus[c].waiters.push(v);
            by = self.by(m, self.machines[m].cpus[c].occupant);
        }
        let machine = &mut self.machines[m];
        self.vcpus[v].moved(t, deduced, new, by, env!(self, machine, sink));
    }

    pub(super) fn unqueue(&mut self, m: usize, v: usize, place: Place) {
        if let Place::Waiting { cpu: Some(cpu), .. } = place
            && let Some(cpu) = self.machines[m].cpus.get_mut(cpu.0 as usize)
        {
            cpu.waiters.retain(|w| *w != v);
        }
    }

    /// The CPU goes to `new`; whoever waits for it has another to blame.
    pub(crate) fn occupy(
        &mut self,
        m: usize,
        c: usize,
        t: i64,
        told: Occupant,
        new: Occupant,
        sink: &mut dyn TableSink,
    ) {
        let (told, new) = (self.certain_occupant(m, told), self.certain_occupant(m, new));
        let vcpu = self.vcpu_name(m, told);
        let machine = &mut self.machines[m];
        machine.cpus[c].change(t, told, vcpu, new, env!(self, machine, sink));
    }

    /// An occupant whose end would be recorded; unknown for others.
    fn certain_occupant(&self, m: usize, occupant: Occupant) -> Occupant {
        let machine = &self.machines[m];
        let is_whole = match occupant {
            Occupant::Thread { slot: Some(slot), .. } => machine.threads.get(slot).whole,
            Occupant::Unknown { .. } | Occupant::Vcpu(_) => true,
            Occupant::Idle | Occupant::Thread { slot: None, .. } => !machine.is_filtered(),
        };
        if is_whole { occupant } else { Occupant::Unknown { known_from: i64::MAX } }
    }

    /// Tells the vCPUs that wait for this CPU who has it now.
    pub(crate) fn blame(&mut self, m: usize, c: usize, t: i64, sink: &mut dyn TableSink) {
        if self.machines[m].cpus[c].waiters.is_empty() {
            return;
        }
        let by = self.by(m, self.machines[m].cpus[c].occupant);
        for at in 0..self.machines[m].cpus[c].waiters.len() {
            let machine = &mut self.machines[m];
            let v = machine.cpus[c].waiters[at];
            self.vcpus[v].occupant_changed(t, by, env!(self, machine, sink));
        }
    }

    /// The trace shows `found` on the CPU, which no switch has led to: whatever happened did so
    /// after the CPU's last event, and nothing is known about either thread since then.
    pub(crate) fn displace(
        &mut self,
        m: usize,
        c: usize,
        found: Occupant,
        sink: &mut dyn TableSink,
    ) {
        self.notes.contradictions += 1;
        let t = self.machines[m].cpus[c].last_seen;
        let occupant = self.machines[m].cpus[c].occupant;
        let vcpu = self.vcpu_name(m, occupant);
        let machine = &mut self.machines[m];
        machine.cpus[c].lose(t, i64::MAX, vcpu, env!(self, machine, sink));
        for thread in [occupant, found] {
            if let Occupant::Thread { slot: Some(slot), .. } = thread {
                self.lose_thread(m, slot, t, i64::MAX, sink);
            }
        }
    }

    /// The machine records `sched_switch`: from now on, vCPUs stay where events show them.
    pub(crate) fn begin_scheduling(&mut self, m: usize, t: i64, sink: &mut dyn TableSink) {
        let host = self.machines[m].id;
        for v in 0..self.vcpus.len() {
            let vm = self.vcpus[v].machine.0 as usize;
            if self.machines[vm].info.parent == Some(host) && !self.xen.owns(v) {
                let machine = &self.machines[m];
                self.vcpus[v].show(t, env!(self, machine, sink));
            }
        }
    }

    /// The thread turns up on CPU `c`. If another CPU was thought to run it, that one's events end
    /// too early (its file was cut off): nothing is known there since its last one.
    pub(crate) fn arrive(&mut self, m: usize, c: usize, slot: Slot, sink: &mut dyn TableSink) {
        if let Place::OnCpu(cpu) = self.machines[m].threads.get(slot).place
            && cpu.0 as usize != c
            && let Some(other) = self.cpu(m, cpu)
        {
            let found = Occupant::Unknown { known_from: i64::MAX };
            self.displace(m, other, found, sink);
        }
    }
}
