//! Where something on a CPU really is: a guest's CPU is a vCPU, which may wait for a CPU of its host.

use super::state::Walk;
use crate::{
    charge::why,
    piece::{By, Doing, Piece, ThreadId, Why},
    rows::{Before, Lasts as _, Occupant, OfVcpu, Rows},
};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::{CpuId, MachineId, VcpuId},
    state::VcpuState,
};

/// Xen takes a vCPU off for the rest of an accounting period when the budget of its cap has ended: 10 ms in credit2 (boot
/// option `credit2_cap_period_ms`), 30 ms in credit. A toolstack pauses one for longer. The recording does not say which.
const LONGEST_PARKED_NS: i64 = 35_000_000;

type VcpuOf = (MachineId, VcpuId);

/// Where something on a CPU really is.
pub(super) enum Place {
    /// It runs, on a CPU that runs.
    Runs,
    /// The vCPU does that for it.
    Does(Doing, VcpuOf, OfVcpu),
    /// The vCPU waits.
    Waits(VcpuOf, OfVcpu),
    /// The vCPU's thread sleeps.
    Sleeps(VcpuOf),
    Unknown,
}

impl Walk<'_, '_> {
    /// Where something on the CPU is right before the moment, and since when, down to `lo`.
    pub(super) fn place(
        &mut self,
        machine: MachineId,
        cpu: Option<CpuId>,
        lo: i64,
    ) -> (i64, Place) {
        let mut low = lo;
        let mut at = cpu.map(|cpu| (machine, cpu));
        while let Some(vcpu) = at.and_then(|at| self.rows.vcpu_of_cpu(at)) {
            let row = match self.vcpu(vcpu) {
                Before::Row(row) => row,
                Before::Gap(since) => return (since.max(low), Place::Unknown),
            };
            low = low.max(row.ts);
            let parent = self.rows.machine(vcpu.0).and_then(|machine| machine.parent_id);
            match row.state {
                // On a CPU of the parent, which may itself be a guest's.
                VcpuState::Guest | VcpuState::Running => {
                    at = parent.filter(|parent| *parent != vcpu.0).zip(row.cpu());
                }
                VcpuState::Preempted | VcpuState::Waking => return (low, Place::Waits(vcpu, row)),
                VcpuState::Halted | VcpuState::Blocked => return (low, Place::Sleeps(vcpu)),
                VcpuState::Offline if is_parked(self.rows, vcpu, &row) => {
                    return (low, Place::Waits(vcpu, row));
                }
                VcpuState::Offline | VcpuState::Unknown => return (low, Place::Unknown),
                state => {
                    let doing = work_of(state).unwrap_or(Doing::Running);
                    return (low, Place::Does(doing, vcpu, row));
                }
            }
        }
        (low, Place::Runs)
    }

    /// Emits what would be `piece` if the CPU ran.
    pub(super) fn put(&mut self, low: i64, place: Place, piece: Piece) {
        match place {
            Place::Runs => self.emit(low, piece),
            Place::Does(doing, vcpu, row) => {
                let (vcpu, reason) = (Some(vcpu.1), row.reason());
                self.emit(low, Piece { doing, vcpu, reason, ..piece });
            }
            Place::Waits(vcpu, row) => {
                let piece = Piece { doing: Doing::VcpuWait, vcpu: Some(vcpu.1), ..piece };
                self.emit_vcpu_wait(low, &row, vcpu, piece);
            }
            Place::Sleeps(vcpu) => {
                let thread = self.rows.thread_of_vcpu(vcpu);
                match thread.filter(|thread| !self.asked.contains(thread)) {
                    // Its thread sleeps: what that waits for is what this waits for.
                    Some(thread) => {
                        self.push(thread, low, CauseKind::Wakeup, Evidence::Context, Some(0))
                    }
                    None => self.unknown(low),
                }
            }
            Place::Unknown => self.emit(low, Piece { doing: Doing::Unknown, ..piece }),
        }
    }

    pub(super) fn emit_vcpu_wait(&mut self, low: i64, row: &OfVcpu, vcpu: VcpuOf, piece: Piece) {
        if row.state == VcpuState::Offline {
            let (why, evidence) = (Some(Why::Throttled), Evidence::Order);
            return self.emit(low, Piece { why, evidence, ..piece });
        }
        let parent = self.rows.machine(vcpu.0).and_then(|machine| machine.parent_id);
        let who = self.rows.thread_of_vcpu(vcpu);
        let Some(cpu) = parent.zip(row.cpu()) else { return self.emit(low, piece) };
        let Some((_, tid)) = row.by() else {
            let nobody = ThreadId::nobody(cpu.0);
            return self.emit_wait(low, cpu, who.unwrap_or(nobody), piece);
        };
        let by = match tid.is_idle() {
            true => By::Idle,
            // The column names the machine for which the thread runs; the thread is its parent's.
            false => By::Thread(ThreadId { machine: cpu.0, tid }),
        };
        let why = who.map(|who| self.why(who, by, cpu, low));
        self.emit(low, charged(Piece { by: Some(by), ..piece }, why));
    }

    /// A wait up to the moment for the CPU, down to when another has it.
    pub(super) fn emit_wait(
        &mut self,
        low: i64,
        cpu: (MachineId, CpuId),
        who: ThreadId,
        piece: Piece,
    ) {
        let (low, by) = match self.slice(cpu) {
            Before::Row(slice) => (slice.ts.max(low), occupant(cpu.0, slice.who)),
            Before::Gap(since) => (since.max(low), None),
        };
        let own = piece.vcpu.map(|vcpu| By::Vcpu(piece.machine, vcpu));
        let by = by.filter(|by| *by != By::Thread(who) && Some(*by) != own);
        let why = by.map(|by| self.why(who, by, cpu, low));
        self.emit(low, charged(Piece { by, ..piece }, why));
    }

    /// Why the thread waits for the CPU from `low` up to the moment.
    fn why(&mut self, who: ThreadId, by: By, cpu: (MachineId, CpuId), low: i64) -> (Why, Evidence) {
        let (rows, t) = (self.rows, self.t);
        why(rows, who, by, cpu, (low, t), || {
            let spans = self.idle.rows(cpu.0, cpu.0.0, || rows.idle_of_all(cpu.0));
            spans.map_or(0, |(spans, near)| spans.within_near(low, t, near))
        })
    }
}

fn charged(piece: Piece, why: Option<(Why, Evidence)>) -> Piece {
    let evidence = why.map_or(piece.evidence, |(_, evidence)| piece.evidence.max(evidence));
    Piece { why: why.map(|(why, _)| why), evidence, ..piece }
}

/// What is done for a vCPU, where that is not guest code.
pub(super) fn work_of(state: VcpuState) -> Option<Doing> {
    match state {
        VcpuState::Exit | VcpuState::Hypercall | VcpuState::Trap => Some(Doing::Exit),
        VcpuState::User => Some(Doing::User),
        VcpuState::HaltPoll => Some(Doing::HaltPoll),
        _ => None,
    }
}

fn occupant(machine: MachineId, who: Occupant) -> Option<By> {
    match who {
        Occupant::Thread(tid) if tid.is_idle() => Some(By::Idle),
        Occupant::Thread(tid) => Some(By::Thread(ThreadId { machine, tid })),
        Occupant::Vcpu(machine, vcpu) => Some(By::Vcpu(machine, vcpu)),
        Occupant::Unknown => None,
    }
}

/// Is the vCPU off for its cap? It is there before and after, and not for long.
pub(super) fn is_parked(rows: &Rows<'_>, vcpu: VcpuOf, row: &OfVcpu) -> bool {
    let is_there = |t| matches!(rows.vcpu(vcpu, t), Before::Row(row) if !matches!(row.state, VcpuState::Offline | VcpuState::Unknown));
    row.dur <= LONGEST_PARKED_NS && is_there(row.ts) && is_there(row.end().saturating_add(1))
}
