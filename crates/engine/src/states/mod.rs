//! The analyses: one file per state machine, each with its boundary state explained on top.
//!
//! Every analysis is init (`new`) / step / finish over a state that is plain data and `Clone`, so
//! that a run can be cut at any point in time and continued from a copy, and its sums can be added
//! up over shards. None of them does I/O or looks at wall-clock time.

pub(crate) mod block;
pub(crate) mod causes;
pub(crate) mod check;
pub(crate) mod counters;
pub(crate) mod effective;
mod env;
pub(crate) mod exits;
pub(crate) mod irqs;
pub(crate) mod lost;
pub(crate) mod net;
pub(crate) mod occupant;
pub(crate) mod packets;
pub(crate) mod pcpu;
pub(crate) mod slots;
pub(crate) mod stages;
pub(crate) mod syscalls;
pub(crate) mod thread;
pub(crate) mod vcpu;
pub(crate) mod waits;
mod waker;
pub(crate) mod wakeups;
pub(crate) mod windows;
pub(crate) mod work;
pub(crate) mod xen;

pub(crate) use env::Env;
pub(crate) use waker::Waker;
