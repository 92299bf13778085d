//! All waits of a thread for a CPU, without what it did otherwise.

use super::state::Walk;
use crate::{
    piece::{Piece, ThreadId},
    rows::{Lasts as _, Rows},
};
use transect_model::state::ThreadState;

/// The thread's waits for a CPU in the window, each cut by who had the CPU, in order of time. Waits of the vCPU on which the
/// thread waits or would run are [`Doing::VcpuWait`](crate::Doing::VcpuWait); those of a running thread are not among them.
pub fn waits(rows: &Rows<'_>, who: ThreadId, (from, until): (i64, i64)) -> Vec<Piece> {
    let mut all = Vec::new();
    for row in rows.states_in(who, from, until).filter(|row| row.state == ThreadState::Runnable) {
        let (lo, end) = (row.ts.max(from), row.end().min(until));
        let mut walk = Walk::new(rows, who, (lo, end));
        while walk.t > lo
            && let Some(frame) = walk.frames.last().copied()
        {
            walk.waits(frame, row, lo);
        }
        all.extend(walk.path.pieces.into_iter().rev());
    }
    all
}
