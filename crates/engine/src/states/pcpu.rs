//! One CPU of one machine: who has it. The slices tile the window.
//!
//! **Boundary state.** `Unknown` until the first `sched_switch` on the CPU, whose `prev` had it
//! since the stream is complete, or until any event shows the current thread while the machine is
//! known to record `sched_switch`.

use super::{Env, causes::OnCpu, irqs::Irqs, occupant::Occupant, packets::LastOnCpu};
use serde::{Deserialize, Serialize};
use transect_model::{
    ids::{CpuId, MachineId, VcpuId},
    table::{CpuSlice, Row},
};

/// One CPU between two events.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cpu {
    pub(crate) id: CpuId,
    pub(crate) occupant: Occupant,
    since: i64,
    /// Its last event.
    pub(crate) last_seen: i64,
    /// Has it had an event?
    is_seen: bool,
    /// The one before its last; the earliest time there is if there was none.
    pub(crate) seen_before: i64,
    /// Since when its events are complete.
    complete_from: i64,
    /// When it was idle last; the earliest time there is if it was not seen to be.
    last_idle: i64,
    /// Does a stream tell about it? Only then it has slices.
    pub(crate) has_stream: bool,
    /// Under Xen: the index of its windows.
    pub(crate) in_windows: Option<usize>,
    /// vCPUs whose thread is on this CPU's run queue, waiting.
    pub(crate) waiters: Vec<usize>,
    pub(crate) irqs: Irqs,
    /// Causes on their way here.
    pub(crate) on_its_way: OnCpu,
    /// Packets that pass here.
    pub(crate) packets: LastOnCpu,
}

/// A vCPU thread's vCPU, for the slice's row.
pub(crate) type VcpuName = Option<(MachineId, VcpuId)>;

impl Cpu {
    pub(crate) fn new(id: CpuId, start: i64, known_from: i64) -> Self {
        Cpu {
            id,
            occupant: Occupant::Unknown { known_from },
            since: start,
            last_seen: start,
            is_seen: false,
            seen_before: i64::MIN,
            complete_from: known_from,
            last_idle: i64::MIN,
            has_stream: false,
            in_windows: None,
            waiters: Vec::new(),
            irqs: Irqs::default(),
            on_its_way: OnCpu::default(),
            packets: LastOnCpu::default(),
        }
    }

    /// Is a network driver getting a packet here?
    pub(crate) fn is_sending(&self) -> bool {
        self.packets.transmit.is_some()
    }

    /// The CPU goes to `new` at `t`; `told` had it until then, and was named `vcpu` if it is one.
    pub(crate) fn change(
        &mut self,
        t: i64,
        told: Occupant,
        vcpu: VcpuName,
        new: Occupant,
        env: &mut Env<'_>,
    ) {
        if let Occupant::Unknown { known_from } = self.occupant
            && known_from <= t
        {
            self.close(known_from, None, env);
            self.occupant = told;
        }
        if self.occupant != new {
            self.close(t, vcpu, env);
            self.occupant = new;
        }
    }

    /// It has an event at `t`.
    #[inline]
    pub(crate) fn see(&mut self, t: i64) {
        let before = std::mem::replace(&mut self.last_seen, t);
        self.seen_before =
            if std::mem::replace(&mut self.is_seen, true) { before } else { i64::MIN };
    }

    /// Was no event seen since `since` and since its events are complete, before the one that it has now?
    pub(crate) fn is_first_since(&self, since: i64) -> bool {
        self.seen_before < since.min(self.complete_from)
    }

    /// When it was idle last, up to `t`.
    pub(crate) fn last_idle(&self, t: i64) -> i64 {
        if self.occupant == Occupant::Idle { t } else { self.last_idle }
    }

    /// Who has the CPU is not known from `t` on, and events are complete again from `until`.
    pub(crate) fn lose(&mut self, t: i64, until: i64, vcpu: VcpuName, env: &mut Env<'_>) {
        self.close(t, vcpu, env);
        self.complete_from = self.complete_from.max(until);
        let until = match self.occupant {
            Occupant::Unknown { known_from } => known_from.max(until),
            _ => until,
        };
        self.occupant = Occupant::Unknown { known_from: until };
        self.irqs.lose();
        self.on_its_way.lose();
        self.packets = LastOnCpu::default();
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, end: i64, vcpu: VcpuName, env: &mut Env<'_>) {
        self.close(end, vcpu, env);
    }

    fn close(&mut self, t: i64, vcpu: VcpuName, env: &mut Env<'_>) {
        let from = self.since.max(env.start);
        self.since = self.since.max(t);
        if self.occupant == Occupant::Idle {
            self.last_idle = self.last_idle.max(t);
        }
        if t <= from || !self.has_stream {
            return;
        }
        if let Some(at) = self.in_windows.filter(|_| env.wants.windows) {
            env.windows.pcpu_slice(at, self.occupant, from, t);
        }
        if !env.wants.cpu_slices {
            return;
        }
        let vcpu = match self.occupant {
            Occupant::Thread { .. } | Occupant::Vcpu(_) => vcpu,
            _ => None,
        };
        env.sink.row(Row::CpuSlice(CpuSlice {
            ts: from,
            dur: t - from,
            machine_id: env.machine,
            cpu: self.id,
            tid: self.occupant.tid(),
            vcpu_machine_id: vcpu.map(|v| v.0),
            vcpu: vcpu.map(|v| v.1),
        }));
    }
}
