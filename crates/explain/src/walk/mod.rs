//! The walk: from the end of a window back to its start, always at what kept the thread from going on.
//!
//! ```text
//! thread runs ───────── it is the piece, cut by the states of the vCPU that it runs on
//! thread waits ──────── for who has the CPU, cut by the CPU's slices
//! thread began ──────── its parent, if another one waits for it
//! thread sleeps ─────── whoever woke it: a frame for the time that it slept; for a thread of a VMM that does not run a vCPU,
//!                       for all of its own frame: what it did before was for others
//!                         another thread: goes on there
//!                         an interrupt:   its handler, and what that was about: a timer, a request, a packet;
//!                                         in a guest, its way through the hypervisor to who sent it
//! nothing known ─────── unknown
//! ```
//! The pieces tile the window: each step emits what lies between a row's start (or the frame's) and the moment that the
//! walk has reached, and goes on there; a frame that has reached its start ends. Time never rises: a cause later than its
//! effect is taken to be at its effect if both clocks' errors allow that, and refused otherwise. At one moment an actor
//! is asked once; a cause that leads back to it is refused, and the time unknown.

mod interrupt;
mod near;
mod place;
mod state;
mod vcpu;
mod waits;

pub use state::Walked;
pub use waits::{each_wait, waits};

use crate::{
    piece::{Actor, Doing, Piece, ThreadId},
    rows::{Before, Lasts as _, Origin, Rows, State},
};
use interrupt::Interrupt;
use place::{Place, work_of};
use state::{Frame, Walk};
use transect_model::{
    cause::{CauseKind, Evidence},
    exit::ExitReason,
    ids::{CpuId, MachineId, VcpuId},
    state::{ThreadState, VcpuState},
};
use vcpu::walk_vcpu;

/// How a thread spent a window, and what kept it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// In order of time; they tile the window.
    pub pieces: Vec<Piece>,
    /// How they were found.
    pub walked: Walked,
}

/// How the thread or vCPU spent the window, and what kept it. An empty window has no pieces. A path of a long window takes more
/// memory than its rows: [`each_piece`] keeps none of it.
pub fn walk(rows: &Rows<'_>, who: Actor, window: (i64, i64)) -> Path {
    let mut pieces = Vec::new();
    let walked = each_piece(rows, who, window, &mut |piece| pieces.push(*piece));
    pieces.reverse();
    Path { pieces, walked }
}

/// Gives the pieces of the path of the thread or vCPU through the window, from the last one back.
pub fn each_piece(
    rows: &Rows<'_>,
    who: Actor,
    window: (i64, i64),
    see: &mut dyn FnMut(&Piece),
) -> Walked {
    match who {
        Actor::Thread(thread) => walk_thread(rows, thread, window, see),
        Actor::Vcpu(machine, vcpu) => walk_vcpu(rows, (machine, vcpu), window, see),
    }
}

fn walk_thread(
    rows: &Rows<'_>,
    root: ThreadId,
    window: (i64, i64),
    see: &mut dyn FnMut(&Piece),
) -> Walked {
    let mut walk = Walk::new(rows, root, window, see);
    while let Some(frame) = walk.frames.last().copied() {
        if walk.t <= frame.lo {
            walk.frames.pop();
            continue;
        }
        walk.walked.steps += 1;
        walk.step(frame);
    }
    walk.finish()
}

impl Walk<'_, '_> {
    fn step(&mut self, frame: Frame) {
        let row = match self.state(frame.thread) {
            Before::Row(row) => row,
            Before::Gap(since) => return self.before_birth(frame, since),
        };
        let low = row.ts.max(frame.lo);
        match row.state {
            ThreadState::Running => self.runs(frame, &row, low),
            ThreadState::Runnable => self.waits(frame, &row, low),
            ThreadState::Blocked => self.slept(frame, &row, low),
            ThreadState::Unknown => self.unknown(low),
        }
    }

    /// Nothing is known of the thread before the moment: if it began then, it is its parent that others waited for.
    fn before_birth(&mut self, frame: Frame, since: i64) {
        let fork = self.rows.fork(frame.thread, self.t).filter(|_| self.frames.len() > 1);
        let parent = fork.and_then(|fork| Some((fork, fork.thread()?)));
        let Some((fork, parent)) = parent else { return self.unknown(since.max(frame.lo)) };
        self.push(parent, frame.lo, CauseKind::Fork, fork.evidence, fork.error_ns());
    }

    fn runs(&mut self, frame: Frame, row: &State, low: i64) {
        let mut low = low;
        if let Some(lock) = self.rows.lock(frame.thread, low, self.t) {
            let end = lock.ts.saturating_add(lock.dur.unwrap_or(0));
            if end < self.t {
                // What comes behind the lock first.
                low = end;
            } else {
                let low = lock.ts.max(low);
                let owner = lock.owner_tid.map(|tid| ThreadId { tid, ..frame.thread });
                match owner.filter(|owner| *owner != frame.thread) {
                    Some(owner) => {
                        self.push(owner, low, CauseKind::Lock, Evidence::Context, Some(0))
                    }
                    None => self.emit(low, self.of_thread(frame.thread, row.cpu(), Doing::Lock)),
                }
                return;
            }
        }
        if let Some(vcpu) = self.rows.vcpu_of_thread(frame.thread) {
            return self.runs_vcpu(frame, row, vcpu, low);
        }
        let (is_reclaiming, low) = self.rows.reclaims(frame.thread, self.t, low);
        let doing = if is_reclaiming { Doing::Reclaim } else { Doing::Running };
        let (low, place) = self.place(frame.thread.machine, row.cpu(), low);
        self.put(low, place, self.of_thread(frame.thread, row.cpu(), doing));
    }

    /// A vCPU's thread has the CPU since `low`: for its guest's thread, or the hypervisor's and VMM's work for it.
    fn runs_vcpu(&mut self, frame: Frame, row: &State, vcpu: (MachineId, VcpuId), low: i64) {
        let piece =
            Piece { vcpu: Some(vcpu.1), ..self.of_thread(frame.thread, row.cpu(), Doing::Running) };
        // Who is asked for by a cause is the guest's thread; a vCPU as a root is asked for itself.
        let is_cause = self.frames.len() > 1;
        loop {
            let (since, state) = match self.vcpu(vcpu) {
                Before::Row(state) => (state.ts, Some(state)),
                Before::Gap(since) => (since, None),
            };
            let work = state.and_then(|state| Some((work_of(state.state)?, state.reason())));
            let is_guest = state.is_some_and(|state| state.state == VcpuState::Guest);
            let guest = if is_guest && is_cause { self.guest_thread(vcpu) } else { None };
            if let Some(guest) = guest.filter(|guest| !self.asked.contains(guest)) {
                if let Some(top) = self.frames.last_mut() {
                    top.thread = guest;
                }
                return self.asked.push(guest);
            }
            let (doing, reason) = work.unwrap_or((Doing::Running, None));
            self.emit(since.max(low), Piece { doing, reason, ..piece });
            if !self.goes_on(low) {
                return;
            }
        }
    }

    /// The guest's thread that the vCPU runs right before the moment.
    fn guest_thread(&mut self, (machine, vcpu): (MachineId, VcpuId)) -> Option<ThreadId> {
        let Before::Row(slice) = self.slice((machine, CpuId(vcpu.0))) else {
            return None;
        };
        let tid = slice.tid().filter(|tid| !tid.is_idle())?;
        Some(ThreadId { machine, tid })
    }

    /// Waits for a CPU since `low`.
    pub(super) fn waits(&mut self, frame: Frame, row: &State, low: i64) {
        let piece = self.of_thread(frame.thread, row.cpu(), Doing::Runnable);
        let Some(cpu) = row.cpu() else { return self.emit(low, piece) };
        loop {
            let (since, place) = self.place(frame.thread.machine, Some(cpu), low);
            match place {
                Place::Waits(..) => self.put(since, place, piece),
                _ => self.emit_wait(since, (frame.thread.machine, cpu), frame.thread, piece),
            }
            if !self.goes_on(low) {
                return;
            }
        }
    }

    fn slept(&mut self, frame: Frame, row: &State, low: i64) {
        let (woken, kick) = match row.end() == self.t {
            true => self.wake(frame.thread),
            false => (None, None),
        };
        let Some(cause) = woken else {
            // Lost events would have ended the row. Who is a cause was awake.
            let is_asleep = row.end() > self.t || self.rows.is_last(frame.thread, row);
            let is_asleep = is_asleep && self.frames.len() == 1;
            let doing = if is_asleep { Doing::Asleep } else { Doing::Unknown };
            return self.emit(low, self.of_thread(frame.thread, None, doing));
        };
        let waker = kick.as_ref().unwrap_or(&cause).thread();
        let is_passed_over = self.frames.len() > 1
            && waker.is_some_and(|waker| !self.asked.contains(&waker))
            && self.rows.is_of_vmm(frame.thread);
        self.follow(frame.thread, &cause, kick, if is_passed_over { frame.lo } else { low });
    }

    /// Goes on at what woke the thread at the moment; it slept since `lo`.
    fn follow(&mut self, thread: ThreadId, cause: &Origin, kick: Option<Origin>, lo: i64) {
        if let Some(kick) = kick
            && let Some(guest) = kick.thread()
            && kick.ts <= self.t
        {
            // What the vCPU's thread does for it lies between.
            let vcpu = cause.thread().and_then(|waker| self.rows.vcpu_of_thread(waker));
            let exit = Piece {
                machine: guest.machine,
                tid: Some(guest.tid),
                vcpu: vcpu.map(|(_, vcpu)| vcpu),
                cpu: kick.cpu(),
                reason: vcpu.and_then(|vcpu| self.exit_reason(vcpu)),
                cause: Some(CauseKind::Kick),
                evidence: self.weaker(kick.evidence),
                ..self.of_thread(guest, kick.cpu(), Doing::Exit)
            };
            self.emit(kick.ts.max(lo), exit);
            return self.push(guest, lo, CauseKind::Kick, kick.evidence, kick.error_ns());
        }
        let Some(at) = self.time_of(cause) else { return self.unknown(lo) };
        match (cause.thread(), cause.cpu()) {
            (Some(waker), _) => {
                if at < self.t {
                    let piece = self.of_thread(thread, cause.effect_cpu(), Doing::Delivery);
                    self.emit(at.max(lo), Piece { cause: Some(cause.kind), ..piece });
                }
                self.push(waker, lo, cause.kind, cause.evidence, cause.error_ns());
            }
            (None, Some(cpu)) => {
                let interrupt = Interrupt {
                    machine: cause.machine,
                    cpu,
                    context: cause.context,
                    vector: cause.vector(),
                    kind: cause.kind,
                    since: at,
                };
                self.interrupted(thread, interrupt, cause, lo);
            }
            (None, None) => self.unknown(lo),
        }
    }

    /// The time of a cause, not behind the moment; none if it is too far behind it.
    fn time_of(&mut self, cause: &Origin) -> Option<i64> {
        if cause.ts <= self.t {
            return Some(cause.ts);
        }
        let error = cause.error_ns().and_then(|ns| i64::try_from(ns).ok()).unwrap_or(0);
        if cause.ts.saturating_sub(self.t) <= error {
            return Some(self.t);
        }
        self.walked.refused += 1;
        None
    }

    /// The reason of the exit that the vCPU is in right before the moment.
    fn exit_reason(&mut self, vcpu: (MachineId, VcpuId)) -> Option<ExitReason> {
        match self.vcpu(vcpu) {
            Before::Row(row) => row.reason(),
            Before::Gap(_) => None,
        }
    }
}
