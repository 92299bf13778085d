//! System calls: entry to return of one thread.
//!
//! **Boundary state.** The open call of each thread. A return without an entry (before the
//! recording, or in a hole) makes no row: its start is not known. An entry without a return makes
//! one with null `dur`.

use super::{Env, thread::OpenSyscall};
use transect_model::{
    ids::Tid,
    table::{Row, Syscall},
};

impl Env<'_> {
    /// One row of the syscalls table; `done` is when it returned and what.
    pub(crate) fn syscall(&mut self, tid: Tid, call: OpenSyscall, done: Option<(i64, i64)>) {
        if call.ts < self.start || !self.wants.syscalls {
            return;
        }
        self.sink.row(Row::Syscall(Syscall {
            ts: call.ts,
            dur: done.map(|(t, _)| t - call.ts),
            machine_id: self.machine,
            tid,
            nr: call.nr,
            ret: done.map(|(_, ret)| ret),
        }));
    }
}
