//! Where a walk is: the actors that are asked, the moment that it has reached, and the pieces behind that.

use super::near::Near;
use crate::{
    piece::{Doing, Piece, ThreadId},
    rows::{Before, Lasts, Line, Moments, OfVcpu, Origin, Rows, Slice, State},
    spans::Spans,
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
    states: Near<'r, ThreadId, Line<State>>,
    vcpus: Near<'r, VcpuOf, Line<OfVcpu>>,
    slices: Near<'r, (MachineId, CpuId), Line<Slice>>,
    wakes: Near<'r, ThreadId, Moments<Origin>>,
    pub(super) idle: Near<'r, MachineId, Spans>,
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
        Walk {
            rows,
            see,
            open: None,
            walked: Walked::default(),
            frames,
            t: until,
            asked,
            states: Near::default(),
            vcpus: Near::default(),
            slices: Near::default(),
            wakes: Near::default(),
            idle: Near::default(),
        }
    }

    /// The thread's state right before the moment.
    pub(super) fn state(&mut self, thread: ThreadId) -> Before<State> {
        let rows = self.rows;
        let line = self.states.rows(thread, number(thread), || rows.states(thread));
        before(line, self.t)
    }

    /// The vCPU's state right before the moment.
    pub(super) fn vcpu(&mut self, vcpu: VcpuOf) -> Before<OfVcpu> {
        let rows = self.rows;
        let number = vcpu.0.0.wrapping_add(vcpu.1.0);
        before(self.vcpus.rows(vcpu, number, || rows.vcpu_states(vcpu)), self.t)
    }

    /// Who has the CPU right before the moment.
    pub(super) fn slice(&mut self, cpu: (MachineId, CpuId)) -> Before<Slice> {
        let rows = self.rows;
        let number = cpu.0.0.wrapping_add(cpu.1.0);
        before(self.slices.rows(cpu, number, || rows.slices(cpu)), self.t)
    }

    /// What woke the thread at the moment, and the kick of a guest for which it was woken.
    pub(super) fn wake(&mut self, thread: ThreadId) -> (Option<Origin>, Option<Origin>) {
        let (rows, t) = (self.rows, self.t);
        let line = self.wakes.rows(thread, number(thread), || rows.wakes(thread));
        let (mut wake, mut kick) = (None, None);
        for cause in line.into_iter().flat_map(|(all, near)| all.at_near(t, near)) {
            match cause.kind {
                CauseKind::Kick if cause.thread().is_none() => {}
                CauseKind::Kick => kick = kick.or(Some(cause)),
                _ => wake = wake.or(Some(cause)),
            }
        }
        (wake, kick)
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

    /// Is there more of what has gone on since `low`? Then that is one more step.
    pub(super) fn goes_on(&mut self, low: i64) -> bool {
        let goes_on = self.t > low;
        self.walked.steps += u64::from(goes_on);
        goes_on
    }

    /// Gives the last piece away.
    pub(super) fn finish(mut self) -> Walked {
        self.close();
        self.walked
    }

    fn close(&mut self) {
        if let Some(piece) = &self.open {
            self.walked.pieces += 1;
            (self.see)(piece);
        }
        self.open = None;
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
        if let Some(later) = self.open.as_mut().filter(|later| later.goes_on_from(&piece)) {
            later.ts = piece.ts;
            later.dur += piece.dur;
            return;
        }
        self.close();
        self.open = Some(piece);
    }
}

/// Differs for most threads.
fn number(thread: ThreadId) -> u32 {
    thread.machine.0.wrapping_add(thread.tid.0.cast_unsigned())
}

/// What is known right before `t` by these rows, near the last answer.
fn before<T: Lasts>(line: Option<(&Line<T>, &mut usize)>, t: i64) -> Before<T> {
    line.map_or(Before::Gap(i64::MIN), |(line, near)| line.before_near(t, near))
}
