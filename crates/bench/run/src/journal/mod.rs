//! What happened, in the order in which it happened: a file of JSON lines, each on the disk before the next thing begins.
//!
//! After `kill -9` or a power failure the file ends with a whole line or with a torn one. A torn line is of something that
//! was not told to anybody: it is cut off, and that is noted. So no result is lost and none is there twice:
//!
//! ```text
//! begun      once: the plan's hash, the program, this machine
//! resumed    each time it goes on: what was unfinished, what of the machine differs
//! opened     a machine is there: what it is, how long it took
//! started    a run begins
//! ended      a run has ended: its result, or why there is none
//! stopped    a workload has enough blocks, or gave up
//! finished   once
//! ```

mod entry;
mod file;
mod state;

pub use entry::{
    CellResult, Confirmation, Ended, Entry, FORMAT, Opened, Outcome, PartResult, RunKey, Started,
    Stop,
};
pub use file::{Journal, read};
pub use state::State;
pub(crate) use state::stands;
