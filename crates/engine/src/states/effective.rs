//! Where a guest thread really was while its own kernel believed it was running.
//!
//! Two tilings of the same time are joined per vCPU: the guest kernel's ("thread T has CPU n") and
//! the host's ("vCPU n is in state S"). Each running interval of a guest thread comes out as
//! `thread_states` rows, cut where the vCPU's effective state changes; the pieces' sum is the
//! interval.
//!
//! **Boundary state.** Runs and vCPU states not yet joined. The host's side lags, because vCPU
//! states are held back until the next entry names them; the guest's side is complete up to now,
//! except at the beginning and after a hole, where the first event tells who ran since; until then
//! the host's states wait (at most [`MAX_WAITING`]; beyond that the run's start is `unknown`).

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use transect_model::{
    ids::{CpuId, MachineId, Tid},
    state::{EffectiveState, ThreadState},
    table::{Row, TableSink, ThreadStateRow},
};

/// vCPU states kept while the guest's side is unknown.
const MAX_WAITING: usize = 65_536;

/// Who has the guest's CPU now, as the guest's events tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Now {
    /// A later event may tell who ran meanwhile.
    Undetermined,
    /// No thread.
    Idle,
    /// This thread, not yet joined from this stamp on.
    Runs { tid: Tid, since: i64 },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Run {
    tid: Tid,
    from: i64,
    to: i64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Piece {
    from: i64,
    to: i64,
    effective: EffectiveState,
}

/// The join of one vCPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Join {
    machine: MachineId,
    cpu: CpuId,
    now: Now,
    runs: VecDeque<Run>,
    vcpu: VecDeque<Piece>,
    /// The piece last made, still open to be continued.
    last: Option<(Tid, Piece)>,
}

/// The joins of all vCPUs, by vCPU index; none for those whose guest tells nothing.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Joins(Vec<Option<Join>>);

impl Joins {
    pub(crate) fn push(&mut self, machine: MachineId, cpu: CpuId, traced: bool) {
        self.0.push(traced.then(|| Join {
            machine,
            cpu,
            now: Now::Undetermined,
            runs: VecDeque::new(),
            vcpu: VecDeque::new(),
            last: None,
        }));
    }

    /// The guest's kernel gives the CPU to a thread.
    pub(crate) fn run_begins(&mut self, at: usize, tid: Tid, t: i64, sink: &mut dyn TableSink) {
        if let Some(join) = &mut self.0[at] {
            join.step(sink);
            join.now = Now::Runs { tid, since: t };
        }
    }

    /// The thread's running interval [from, to) is complete. Returns its end: later than `to` if
    /// more of it has been joined already (a contradiction shows only afterwards that it had ended).
    pub(crate) fn run_ends(
        &mut self,
        at: usize,
        tid: Tid,
        from: i64,
        to: i64,
        sink: &mut dyn TableSink,
    ) -> i64 {
        let Some(join) = &mut self.0[at] else { return to.max(from) };
        let from = match join.now {
            Now::Runs { tid: open, since } if open == tid => since.max(from),
            _ => from,
        };
        join.now = Now::Idle;
        if from < to {
            join.runs.push_back(Run { tid, from, to });
        }
        join.step(sink);
        to.max(from)
    }

    /// The guest's events are missing: who has the CPU may be told later.
    pub(crate) fn lose(&mut self, at: usize) {
        if let Some(join) = &mut self.0[at] {
            join.now = Now::Undetermined;
        }
    }

    /// A guest thread on the vCPU was in `effective` in [from, to).
    #[inline]
    pub(crate) fn vcpu_state(
        &mut self,
        at: usize,
        effective: EffectiveState,
        from: i64,
        to: i64,
        sink: &mut dyn TableSink,
    ) {
        if let Some(join) = &mut self.0[at] {
            join.vcpu_state(effective, from, to, sink);
        }
    }

    /// Both sides are complete: joins the rest.
    pub(crate) fn finish(&mut self, sink: &mut dyn TableSink) {
        for join in self.0.iter_mut().flatten() {
            join.now = Now::Idle;
            join.step(sink);
            while let Some(run) = join.runs.pop_front() {
                join.emit(run.tid, run.from, run.to, EffectiveState::Unknown, sink);
            }
            join.flush(sink);
        }
    }
}

impl Join {
    /// A guest thread on it was in `effective` in [from, to).
    fn vcpu_state(
        &mut self,
        effective: EffectiveState,
        from: i64,
        to: i64,
        sink: &mut dyn TableSink,
    ) {
        match self.vcpu.back_mut() {
            Some(last) if last.effective == effective && last.to == from => last.to = to,
            _ => self.vcpu.push_back(Piece { from, to, effective }),
        }
        self.step(sink);
        if self.vcpu.len() > MAX_WAITING {
            self.vcpu.pop_front();
        }
    }

    /// Joins what both sides know.
    fn step(&mut self, sink: &mut dyn TableSink) {
        while let Some(piece) = self.vcpu.front().copied() {
            let Some(run) = self.next_run(piece) else { return };
            let Some(run) = run else {
                self.vcpu.pop_front();
                continue;
            };
            if piece.to <= run.from {
                self.vcpu.pop_front();
                continue;
            }
            if run.from < piece.from {
                let to = run.to.min(piece.from);
                self.emit(run.tid, run.from, to, EffectiveState::Unknown, sink);
                self.consume(to);
                continue;
            }
            let to = piece.to.min(run.to);
            self.emit(run.tid, run.from, to, piece.effective, sink);
            self.consume(to);
            if to == piece.to {
                self.vcpu.pop_front();
            }
        }
    }

    /// The run that `piece` has to be joined with: none inside if no thread ran there, none
    /// outside if that is not known yet.
    #[expect(clippy::option_option, reason = "two kinds of absence, named in the doc")]
    fn next_run(&self, piece: Piece) -> Option<Option<Run>> {
        match (self.runs.front(), self.now) {
            (Some(run), _) => Some(Some(*run)),
            (None, Now::Undetermined) => None,
            (None, Now::Idle) => Some(None),
            (None, Now::Runs { tid, since }) => {
                Some(Some(Run { tid, from: since, to: piece.to.max(since) }))
            }
        }
    }

    /// The first run is joined up to `to`.
    fn consume(&mut self, to: i64) {
        match self.runs.front_mut() {
            Some(run) => {
                run.from = to;
                if run.from >= run.to {
                    self.runs.pop_front();
                }
            }
            None => {
                if let Now::Runs { since, .. } = &mut self.now {
                    *since = (*since).max(to);
                }
            }
        }
    }

    fn emit(
        &mut self,
        tid: Tid,
        from: i64,
        to: i64,
        effective: EffectiveState,
        sink: &mut dyn TableSink,
    ) {
        if from >= to {
            return;
        }
        match &mut self.last {
            Some((open, last))
                if *open == tid && last.effective == effective && last.to == from =>
            {
                last.to = to;
            }
            _ => {
                self.flush(sink);
                self.last = Some((tid, Piece { from, to, effective }));
            }
        }
    }

    fn flush(&mut self, sink: &mut dyn TableSink) {
        if let Some((tid, piece)) = self.last.take() {
            sink.row(Row::ThreadState(ThreadStateRow {
                ts: piece.from,
                dur: piece.to - piece.from,
                machine_id: self.machine,
                tid,
                cpu: Some(self.cpu),
                state: ThreadState::Running,
                effective: Some(piece.effective),
                reason: None,
                waker_tid: None,
                waker_context: None,
            }));
        }
    }
}
