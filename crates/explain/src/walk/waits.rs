//! All waits of a thread for a CPU, without what it did otherwise.

use super::state::Walk;
use crate::{
    piece::{Piece, ThreadId},
    rows::{Lasts as _, Rows},
};
use transect_model::state::ThreadState;

/// Gives the thread's waits for a CPU in the window, each cut by who had the CPU and these pieces from the last one back. Waits of
/// the vCPU on which the thread waits or would run are [`Doing::VcpuWait`](crate::Doing::VcpuWait); those of a running thread are
/// not among them.
pub fn each_wait(
    rows: &Rows<'_>,
    who: ThreadId,
    (from, until): (i64, i64),
    see: &mut dyn FnMut(&Piece),
) {
    let mut walk = Walk::new(rows, who, (from, from), see);
    for row in rows.states_in(who, from, until).filter(|row| row.state == ThreadState::Runnable) {
        let (lo, end) = (row.ts.max(from), row.end().min(until));
        walk.restart((lo, end));
        if let Some(frame) = walk.frames.last().copied() {
            walk.waits(frame, &row, lo);
        }
    }
    walk.finish();
}

/// The same, in order of time.
pub fn waits(rows: &Rows<'_>, who: ThreadId, window: (i64, i64)) -> Vec<Piece> {
    let mut all = Vec::new();
    each_wait(rows, who, window, &mut |piece| all.push(*piece));
    all.sort_by_key(|piece| piece.ts);
    all
}
