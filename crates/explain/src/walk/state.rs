//! Where a walk is: the actors that are asked, the moment that it has reached, and the pieces behind that.

use super::near::Near;
use crate::{
    piece::{Doing, Piece, ThreadId},
    rows::{Before, OfVcpu, Rows, Slice, State},
};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::{CpuId, MachineId, VcpuId},
};

type VcpuOf = (MachineId, VcpuId);

/// Causes that lead to one another, at most.
const MAX_FRAMES: usize = 4096;

/// How a path was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walked {
    /// Its pieces.
    pub pieces: u64,
    /// Steps that were made.
    pub steps: u64,
    /// Causes that could not be: later than their effect, or in a circle.
    pub refused: u64,
}

/// An actor that is asked for the time down to `lo`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) thread: ThreadId,
    pub(super) lo: i64,
    pub(super) cause: Option<CauseKind>,
    pub(super) evidence: Evidence,
    pub(super) error_ns: Option<u64>,
    /// How many causes lead to it.
    pub(super) depth: u32,
}

pub(super) struct Walk<'r, 't> {
    pub(super) rows: &'r Rows<'t>,
    /// Gets each piece.
    see: &'r mut dyn FnMut(&Piece),
    /// The last one, which may go on further back.
    open: Option<Piece>,
    pub(super) walked: Walked,
    pub(super) frames: Vec<Frame>,
    pub(super) t: i64,
    /// Who was asked at `t`.
    pub(super) asked: Vec<ThreadId>,
    states: Near<'r, ThreadId, State>,
    vcpus: Near<'r, VcpuOf, OfVcpu>,
    slices: Near<'r, (MachineId, CpuId), Slice>,
}

impl<'r, 't> Walk<'r, 't> {
    pub(super) fn new(
        rows: &'r Rows<'t>,
        root: ThreadId,
        (from, until): (i64, i64),
        see: &'r mut dyn FnMut(&Piece),
    ) -> Self {
        let frame = Frame {
            thread: root,
            lo: from,
            cause: None,
            evidence: Evidence::Id,
            error_ns: Some(0),
            depth: 0,
        };
        let (frames, asked) = (vec![frame], vec![root]);
        let (states, vcpus, slices) = (Near::default(), Near::default(), Near::default());
        let walked = Walked::default();
        Walk { rows, see, open: None, walked, frames, t: until, asked, states, vcpus, slices }
    }

    /// The thread's state right before the moment.
    pub(super) fn state(&mut self, thread: ThreadId) -> Before<State> {
        let rows = self.rows;
        let number = thread.machine.0.wrapping_add(thread.tid.0.cast_unsigned());
        self.states.before(thread, number, self.t, || rows.states(thread))
    }

    /// The vCPU's state right before the moment.
    pub(super) fn vcpu(&mut self, vcpu: VcpuOf) -> Before<OfVcpu> {
        let rows = self.rows;
        let number = vcpu.0.0.wrapping_add(vcpu.1.0);
        self.vcpus.before(vcpu, number, self.t, || rows.vcpu_states(vcpu))
    }

    /// Who has the CPU right before the moment.
    pub(super) fn slice(&mut self, cpu: (MachineId, CpuId)) -> Before<Slice> {
        let rows = self.rows;
        let number = cpu.0.0.wrapping_add(cpu.1.0);
        self.slices.before(cpu, number, self.t, || rows.slices(cpu))
    }

    /// Goes on with another window of the root.
    pub(super) fn restart(&mut self, (from, until): (i64, i64)) {
        self.close();
        self.frames.truncate(1);
        self.asked.clear();
        if let Some(root) = self.frames.first_mut() {
            root.lo = from;
            self.asked.push(root.thread);
        }
        self.t = until;
    }

    /// Gives the last piece away.
    pub(super) fn finish(mut self) -> Walked {
        self.close();
        self.walked
    }

    fn close(&mut self) {
        if let Some(piece) = self.open.take() {
            self.walked.pieces += 1;
            (self.see)(&piece);
        }
    }

    pub(super) fn unknown(&mut self, lo: i64) {
        if let Some(frame) = self.frames.last() {
            self.emit(lo.max(frame.lo), self.of_thread(frame.thread, None, Doing::Unknown));
        }
    }

    /// Asks another thread for the time down to `lo`.
    pub(super) fn push(
        &mut self,
        thread: ThreadId,
        lo: i64,
        cause: CauseKind,
        evidence: Evidence,
        error_ns: Option<u64>,
    ) {
        if self.t <= lo {
            return;
        }
        // A frame that ends where the new one does is not come back to.
        let is_last = self.frames.last().is_some_and(|below| below.depth > 0 && below.lo == lo);
        let is_full = self.frames.len() >= MAX_FRAMES && !is_last;
        if is_full || self.asked.contains(&thread) {
            self.walked.refused += 1;
            return self.unknown(lo);
        }
        let below = self.frames.last();
        let depth = below.map_or(0, |below| below.depth.saturating_add(1));
        let error_ns =
            below.and_then(|below| below.error_ns).zip(error_ns).map(|(a, b)| a.saturating_add(b));
        let evidence = self.weaker(evidence);
        self.asked.push(thread);
        if is_last {
            self.frames.pop();
        }
        self.frames.push(Frame { thread, lo, cause: Some(cause), evidence, error_ns, depth });
    }

    pub(super) fn weaker(&self, evidence: Evidence) -> Evidence {
        self.frames.last().map_or(evidence, |frame| frame.evidence.max(evidence))
    }

    /// A piece of the thread; where in time, [`Self::emit`] tells.
    pub(super) fn of_thread(&self, thread: ThreadId, cpu: Option<CpuId>, doing: Doing) -> Piece {
        let frame = self.frames.last();
        Piece {
            ts: 0,
            dur: 0,
            depth: frame.map_or(0, |frame| frame.depth),
            machine: thread.machine,
            tid: Some(thread.tid),
            vcpu: None,
            cpu,
            doing,
            reason: None,
            by: None,
            why: None,
            cause: frame.and_then(|frame| frame.cause),
            evidence: frame.map_or(Evidence::Order, |frame| frame.evidence),
            error_ns: frame.and_then(|frame| frame.error_ns),
        }
    }

    /// The piece from `low` to the moment, which is then at `low`.
    pub(super) fn emit(&mut self, low: i64, piece: Piece) {
        if low >= self.t {
            return;
        }
        let piece = Piece { ts: low, dur: self.t - low, ..piece };
        self.t = low;
        self.asked.clear();
        self.asked.extend(self.frames.last().map(|frame| frame.thread));
        match &mut self.open {
            Some(later) if later.goes_on_from(&piece) => {
                later.ts = piece.ts;
                later.dur += piece.dur;
            }
            _ => {
                self.close();
                self.open = Some(piece);
            }
        }
    }
}
