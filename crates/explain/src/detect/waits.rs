//! The waits of each thread, and of each vCPU without one, added up.

use super::{finding::Range, rules};
use crate::{
    charge::idle_elsewhere,
    parallel,
    piece::{Actor, By, Doing, Piece, ThreadId, Why},
    rows::{Lasts as _, Rows},
    walk::{each_piece, each_wait},
};
use rustc_hash::FxHashMap;
use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
};
use transect_model::{
    cause::Evidence,
    ids::{CpuId, MachineId},
    state::{ThreadState, VcpuState},
};

/// How long, and how often.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) ns: i64,
    pub(super) count: u64,
}

impl Total {
    fn add(&mut self, ns: i64) {
        self.ns += ns;
        self.count += 1;
    }

    pub(super) fn merge(&mut self, other: Total) {
        self.ns += other.ns;
        self.count += other.count;
    }
}

/// In what waits are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alike {
    pub(super) doing: Doing,
    pub(super) by: Option<By>,
    pub(super) why: Option<Why>,
    pub(super) evidence: Evidence,
}

/// Of what differs most often: there are millions of waits.
impl Hash for Alike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.by.map_or(0, By::number));
        state.write_u32(self.why.map_or(0, |why| 1 + why as u32) << 8 | self.doing as u32);
    }
}

/// Waits beside an idle CPU.
#[derive(Debug, Default)]
pub(super) struct BesideIdle {
    pub(super) sum: Total,
    /// How long each CPU was idle meanwhile.
    pub(super) idle: BTreeMap<CpuId, i64>,
    /// Might a waiting thread run there?
    pub(super) is_allowed: BTreeMap<CpuId, bool>,
}

/// What somebody wanted of the CPUs in the range.
#[derive(Debug)]
pub(super) struct Waits {
    pub(super) of: Actor,
    pub(super) ran: i64,
    pub(super) all: FxHashMap<Alike, Total>,
    /// For a CPU that nobody had, and that should have been there sooner.
    pub(super) too_long: Total,
    /// By who had the CPU.
    pub(super) beside_idle: FxHashMap<By, BesideIdle>,
}

/// The waits of all.
pub(super) fn all(rows: &Rows<'_>, range: Range) -> Vec<Waits> {
    parallel::map(&rows.actors(), |actor| Waits::new(rows, *actor, range))
}

impl Waits {
    fn new(rows: &Rows<'_>, of: Actor, range: Range) -> Self {
        let mut waits = Waits {
            of,
            ran: 0,
            all: FxHashMap::default(),
            too_long: Total::default(),
            beside_idle: FxHashMap::default(),
        };
        match of {
            Actor::Thread(thread) => {
                waits.ran = ran(rows, thread, range);
                each_wait(rows, thread, range.span(), &mut |piece| {
                    waits.add(rows, range, piece, thread);
                });
            }
            Actor::Vcpu(machine, vcpu) => {
                let states = rows.vcpu_states_in((machine, vcpu), range.from, range.until);
                let on = states.filter(|row| has_cpu(row.state));
                waits.ran = on.map(|row| range.of((row.ts, row.end()))).sum();
                let nobody = ThreadId::nobody(machine);
                each_piece(rows, of, range.span(), &mut |piece| {
                    if piece.doing.is_wait() {
                        waits.add(rows, range, piece, nobody);
                    }
                });
            }
        }
        waits
    }

    fn add(&mut self, rows: &Rows<'_>, range: Range, piece: &Piece, thread: ThreadId) {
        let Piece { doing, by, why, evidence, dur, .. } = *piece;
        self.all.entry(Alike { doing, by, why, evidence }).or_default().add(dur);
        if !self.is_own(doing) || why == Some(Why::Throttled) {
            return;
        }
        match by {
            Some(By::Idle) if rules::is_too_long_for_idle(dur, range) => self.too_long.add(dur),
            Some(by @ (By::Thread(_) | By::Vcpu(..))) if is_beside_idle(rows, piece, thread) => {
                self.beside_idle.entry(by).or_default().add(rows, piece, thread);
            }
            _ => {}
        }
    }

    /// Is it the thread or vCPU itself that waits, rather than the vCPU on which a thread is?
    pub(super) fn is_own(&self, doing: Doing) -> bool {
        matches!(self.of, Actor::Vcpu(..)) || doing == Doing::Runnable
    }
}

fn ran(rows: &Rows<'_>, thread: ThreadId, range: Range) -> i64 {
    let on = rows.states_in(thread, range.from, range.until);
    on.filter(|row| row.state == ThreadState::Running)
        .map(|row| range.of((row.ts, row.end())))
        .sum()
}

fn has_cpu(state: VcpuState) -> bool {
    matches!(
        state,
        VcpuState::Guest
            | VcpuState::Running
            | VcpuState::Exit
            | VcpuState::Hypercall
            | VcpuState::Trap
    )
}

impl BesideIdle {
    /// Which CPU was idle meanwhile?
    fn add(&mut self, rows: &Rows<'_>, piece: &Piece, thread: ThreadId) {
        self.sum.add(piece.dur);
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

    pub(super) fn merge(&mut self, other: BesideIdle) {
        self.sum.merge(other.sum);
        for (cpu, ns) in other.idle {
            *self.idle.entry(cpu).or_default() += ns;
        }
        for (cpu, allowed) in other.is_allowed {
            *self.is_allowed.entry(cpu).or_default() |= allowed;
        }
    }
}

/// Was another CPU idle meanwhile, whether that or a weight is what the wait is charged to?
fn is_beside_idle(rows: &Rows<'_>, piece: &Piece, thread: ThreadId) -> bool {
    let (machine, span) = (cpus_of(rows, piece), (piece.ts, piece.end()));
    let elsewhere = |cpu| {
        let idle = rows.idle_of_all(machine).map_or(0, |idle| idle.within(span.0, span.1));
        idle_elsewhere(rows, thread, (machine, cpu), span, idle).is_some()
    };
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
