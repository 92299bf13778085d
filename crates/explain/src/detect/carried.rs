//! What is carried between a VM and its host: a back end that takes long, and interrupts that wait for their vCPU.

use super::{
    cpu::{other, subject},
    finding::{Carries, Confidence, Detail, Detector, Finding, Range, reaches},
    waits::Waits,
};
use crate::{
    blame::Party,
    piece::{Actor, ThreadId},
    rows::Rows,
};
use std::{cmp::Reverse, collections::BTreeMap};
use transect_model::{
    cause::Evidence,
    ids::{MachineId, Tid},
    table::Tables,
};

/// Of fewer requests or packets there is nothing to say.
pub(super) const LEAST_REQUESTS: usize = 50;
/// Steps of the back end that take this share of the time.
const BACK_END_PERCENT: i64 = 30;
/// Interrupts on their way into the guest that take this share of the time.
const DELIVERY_PERCENT: i64 = 30;

/// From one event to the other, if both are known.
pub(super) fn between(from: Option<i64>, to: Option<i64>) -> i64 {
    to.zip(from).map_or(0, |(to, from)| to - from)
}

/// The requests of one VM to a device, or its packets.
pub(super) struct Carried {
    machine: MachineId,
    host: MachineId,
    what: Carries,
    count: u64,
    by_order: u64,
    of_ns: i64,
    back_end_ns: i64,
    back_ends: BTreeMap<Tid, u64>,
    delivery_ns: i64,
}

impl Carried {
    pub(super) fn new(machine: MachineId, host: MachineId, what: Carries) -> Self {
        let (count, by_order, of_ns, back_end_ns, delivery_ns) = (0, 0, 0, 0, 0);
        let back_ends = BTreeMap::new();
        Carried { machine, host, what, count, by_order, of_ns, back_end_ns, back_ends, delivery_ns }
    }

    /// Another one, and how long it took.
    pub(super) fn add(&mut self, dur: i64, evidence: Option<Evidence>) {
        self.count += 1;
        self.by_order += u64::from(evidence == Some(Evidence::Order));
        self.of_ns += dur;
    }

    /// It waited so long for this thread.
    pub(super) fn waits_for(&mut self, ns: i64, back_end: Option<Tid>) {
        self.back_end_ns += ns;
        if let Some(tid) = back_end {
            *self.back_ends.entry(tid).or_default() += 1;
        }
    }

    /// From the interrupt until its handler.
    pub(super) fn is_delivered(&mut self, ns: i64) {
        self.delivery_ns += ns;
    }

    pub(super) fn findings(&self, rows: &Rows<'_>, waits: &[Waits]) -> Vec<Finding> {
        let mut found = Vec::new();
        if self.count < LEAST_REQUESTS as u64 {
            return found;
        }
        if reaches(self.back_end_ns, BACK_END_PERCENT, self.of_ns) {
            let most = self.back_ends.iter().max_by_key(|(tid, count)| (**count, Reverse(**tid)));
            let holder = most.map(|(tid, _)| ThreadId { machine: self.host, tid: *tid });
            let behind = holder.and_then(|holder| behind(rows, waits, holder));
            let detail = Detail::BackEnd { what: self.what, holder, behind };
            found.push(self.finding(Detector::SlowVmm, self.back_end_ns, detail));
        }
        if reaches(self.delivery_ns, DELIVERY_PERCENT, self.of_ns) {
            // Which of several vCPUs takes the interrupts is not known here.
            let of = rows.vcpu_threads().into_iter().filter(|((vm, _), _)| *vm == self.machine);
            let vcpus: Vec<ThreadId> = of.map(|(_, thread)| thread).collect();
            let behind = match vcpus[..] {
                [vcpu] => behind(rows, waits, vcpu),
                _ => None,
            };
            let detail = Detail::BackEnd { what: self.what, holder: None, behind };
            found.push(self.finding(Detector::Delivery, self.delivery_ns, detail));
        }
        found
    }

    fn finding(&self, detector: Detector, held_ns: i64, detail: Detail) -> Finding {
        Finding {
            detector,
            subject: Party::Machine(self.machine),
            held_ns,
            of_ns: self.of_ns,
            count: self.count,
            // Of what was joined by time alone it is not certain.
            confidence: match self.by_order * 10 > self.count {
                true => Confidence::Likely,
                false => Confidence::Certain,
            },
            detail,
        }
    }
}

/// Who had the CPU for most of the time for which the thread waited for it.
fn behind(rows: &Rows<'_>, waits: &[Waits], thread: ThreadId) -> Option<Party> {
    let of = waits.iter().find(|waits| waits.of == Actor::Thread(thread))?;
    let own = subject(rows, thread);
    let mut all: BTreeMap<Party, i64> = BTreeMap::new();
    for (alike, sum) in of.all.iter().filter(|(alike, _)| of.is_own(alike.doing)) {
        if let Some(who) = other(rows, alike.by, &own) {
            *all.entry(who).or_default() += sum.ns;
        }
    }
    all.into_iter().max_by_key(|(_, ns)| *ns).map(|(who, _)| who)
}

/// The packets of each VM, those that it sends and those that it gets.
pub(super) fn packets(
    rows: &Rows<'_>,
    tables: &Tables,
    waits: &[Waits],
    range: Range,
) -> Vec<Finding> {
    let mut all: BTreeMap<MachineId, Carried> = BTreeMap::new();
    for row in tables.packets.iter().filter(|row| range.has(row.ts)) {
        let Some(dur) = row.dur else { continue };
        let ends = [Some(row.machine_id), row.to_machine_id.filter(|to| *to != row.machine_id)];
        for machine in ends.into_iter().flatten() {
            let Some(host) = rows.carrier(machine) else { continue };
            let new = || Carried::new(machine, host, Carries::Packets);
            let carried = all.entry(machine).or_insert_with(new);
            carried.add(dur, row.evidence);
            if machine == row.machine_id {
                carried.waits_for(between(row.kick_ts, row.pickup_ts), row.backend_tid);
            }
            if Some(machine) == row.to_machine_id {
                carried.waits_for(between(row.host_send_ts, row.fetch_ts), row.to_backend_tid);
                carried.is_delivered(between(row.signal_ts, row.guest_irq_ts));
            }
        }
    }
    all.into_values().flat_map(|carried| carried.findings(rows, waits)).collect()
}
