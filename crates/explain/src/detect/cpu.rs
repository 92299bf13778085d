//! Who waits for a CPU: starved, throttled, or kept from an idle one.

use super::{
    finding::{Confidence, Detail, Detector, Finding, Range, reaches},
    rules,
};
use crate::{
    blame::{Level, Party, party},
    charge::idle_elsewhere,
    piece::{Actor, By, Doing, Piece, ThreadId, Why},
    rows::{Lasts as _, Rows},
    walk::{each_piece, each_wait},
};
use std::collections::BTreeMap;
use transect_model::{
    cause::Evidence,
    ids::{CpuId, MachineId},
    state::{ThreadState, VcpuState},
};

/// Waits of this share of the range beside an idle CPU are worth a word.
const AFFINITY_PERCENT: i64 = 5;

#[derive(Default)]
struct Wanted {
    /// Threads, or vCPUs, of it that wanted a CPU.
    ran: i64,
    waited: i64,
    starved: i64,
    behind: BTreeMap<(Party, Option<Why>), i64>,
    throttled: i64,
    throttles: u64,
    /// Most likely for a quota: behind idle alone for too long, or parked by Xen.
    likely: i64,
    likelies: u64,
    affinity: i64,
    affinities: u64,
    idle: BTreeMap<CpuId, i64>,
    is_allowed: BTreeMap<CpuId, bool>,
    starvations: u64,
    /// Has a group above it a quota? None if that was not recorded.
    has_quota: Option<bool>,
}

/// Starvation of vCPUs, control groups, and threads outside of groups.
pub(super) fn find(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<Party, Wanted> = BTreeMap::new();
    for thread in rows.threads() {
        let subject = subject(rows, thread);
        let wanted = all.entry(subject.clone()).or_default();
        wanted.ran += ran(rows, thread, range);
        if let Some(has) = rows.has_quota(thread) {
            wanted.has_quota = Some(wanted.has_quota.unwrap_or(false) || has);
        }
        each_wait(rows, thread, range.span(), &mut |piece| {
            if piece.doing == Doing::Runnable {
                wanted.add(rows, range, &subject, piece, thread);
            }
        });
    }
    for vcpu in rows.vcpus_without_threads() {
        let subject = Party::Vcpu(vcpu.0, vcpu.1);
        let wanted = all.entry(subject.clone()).or_default();
        let on = rows.vcpu_states_in(vcpu, range.from, range.until).filter(|row| {
            matches!(
                row.state,
                VcpuState::Guest
                    | VcpuState::Running
                    | VcpuState::Exit
                    | VcpuState::Hypercall
                    | VcpuState::Trap
            )
        });
        wanted.ran += on.map(|row| range.of((row.ts, row.end()))).sum::<i64>();
        let nobody = ThreadId { machine: vcpu.0, tid: transect_model::ids::Tid(-1) };
        each_piece(rows, Actor::Vcpu(vcpu.0, vcpu.1), range.span(), &mut |piece| {
            if piece.doing.is_wait() {
                wanted.add(rows, range, &subject, piece, nobody);
            }
        });
    }
    all.into_iter().flat_map(|(subject, wanted)| wanted.findings(&subject, range)).collect()
}

/// A vCPU, a control group below the root, else the thread.
pub(super) fn subject(rows: &Rows<'_>, thread: ThreadId) -> Party {
    if rows.vcpu_of_thread(thread).is_some() {
        return party(rows, thread, Level::Thread);
    }
    match party(rows, thread, Level::Group) {
        Party::Group(machine, path) if path.len() > 1 => Party::Group(machine, path),
        _ => Party::Thread(thread),
    }
}

fn ran(rows: &Rows<'_>, thread: ThreadId, range: Range) -> i64 {
    let on = rows.states_in(thread, range.from, range.until);
    on.filter(|row| row.state == ThreadState::Running)
        .map(|row| range.of((row.ts, row.end())))
        .sum()
}

impl Wanted {
    fn add(
        &mut self,
        rows: &Rows<'_>,
        range: Range,
        subject: &Party,
        piece: &Piece,
        thread: ThreadId,
    ) {
        self.waited += piece.dur;
        match (piece.by, piece.why) {
            (_, Some(Why::Throttled)) if piece.evidence == Evidence::Order => {
                self.likely += piece.dur;
                self.likelies += 1;
            }
            (_, Some(Why::Throttled)) => {
                self.throttled += piece.dur;
                self.throttles += 1;
            }
            (Some(By::Idle), _) => {
                if rules::is_too_long_for_idle(piece.dur, range) {
                    self.likely += piece.dur;
                    self.likelies += 1;
                }
            }
            (by, why) => {
                let who = match (by, subject) {
                    (Some(By::Thread(by)), _) => self::subject(rows, by),
                    (Some(By::Vcpu(machine, vcpu)), _) => Party::Vcpu(machine, vcpu),
                    _ => Party::Unknown,
                };
                // Its own threads are not what starves it.
                if who == *subject || who == Party::Unknown {
                    return;
                }
                self.starved += piece.dur;
                self.starvations += 1;
                *self.behind.entry((who, why)).or_default() += piece.dur;
                if is_beside_idle(rows, piece, thread) {
                    self.affinity += piece.dur;
                    self.affinities += 1;
                    self.note_idle(rows, piece, thread);
                }
            }
        }
    }

    /// Which CPU was idle meanwhile?
    fn note_idle(&mut self, rows: &Rows<'_>, piece: &Piece, thread: ThreadId) {
        let machine = cpus_of(rows, piece);
        let idle = rows
            .cpus(machine)
            .iter()
            .map(|cpu| (rows.idle((machine, *cpu), piece.ts, piece.end()), *cpu));
        let Some((ns, cpu)) = idle.max() else { return };
        *self.idle.entry(cpu).or_default() += ns;
        if let Some(allowed) = rows.may_run_on(thread, cpu) {
            *self.is_allowed.entry(cpu).or_default() |= allowed;
        }
    }

    fn findings(self, subject: &Party, range: Range) -> Vec<Finding> {
        let mut found = Vec::new();
        let finding = |detector, held_ns, of_ns, count, detail| Finding {
            detector,
            subject: subject.clone(),
            held_ns,
            of_ns,
            count,
            confidence: Confidence::Certain,
            detail,
        };
        let wanted = self.ran + self.waited;
        let most = self.behind.into_iter().max_by_key(|(_, ns)| *ns);
        let behind = most.map_or(Detail::None, |((who, why), ns)| Detail::Behind { who, why, ns });
        if rules::is_starved(self.starved, wanted, range) {
            found.push(finding(Detector::Starved, self.starved, wanted, self.starvations, behind));
        }
        if rules::is_throttled(self.throttled, range) {
            let (held, count) = (self.throttled, self.throttles);
            found.push(finding(Detector::Throttled, held, range.length(), count, Detail::None));
        } else if rules::is_throttled(self.likely, range) && self.has_quota != Some(false) {
            let (held, count) = (self.likely, self.likelies);
            let likely = finding(Detector::Throttled, held, range.length(), count, Detail::None);
            found.push(Finding { confidence: Confidence::Likely, ..likely });
        }
        if reaches(self.affinity, AFFINITY_PERCENT, range.length()) {
            let most = self.idle.into_iter().max_by_key(|(_, ns)| *ns);
            let detail = most.map_or(Detail::None, |(cpu, _)| Detail::Idle {
                cpu,
                is_allowed: self.is_allowed.get(&cpu).copied(),
            });
            found.push(finding(
                Detector::Affinity,
                self.affinity,
                range.length(),
                self.affinities,
                detail,
            ));
        }
        found
    }
}

/// Was another CPU idle meanwhile, whether that or a weight is what the wait is charged to?
fn is_beside_idle(rows: &Rows<'_>, piece: &Piece, thread: ThreadId) -> bool {
    let on = |cpu| (cpus_of(rows, piece), cpu);
    let elsewhere = |cpu| idle_elsewhere(rows, thread, on(cpu), (piece.ts, piece.end())).is_some();
    match piece.why {
        Some(Why::Affinity) => true,
        Some(Why::Weight) => piece.cpu.is_some_and(elsewhere),
        _ => false,
    }
}

/// The machine for whose CPU a piece waits.
fn cpus_of(rows: &Rows<'_>, piece: &Piece) -> MachineId {
    let parent = rows.machine(piece.machine).and_then(|machine| machine.parent_id);
    match (piece.doing, parent) {
        (Doing::VcpuWait, Some(parent)) => parent,
        _ => piece.machine,
    }
}
