//! The tracers that are compared, each around the same load.

mod collector;
mod events;
mod live;
mod ours;
mod perf;
mod splice;
mod trace_cmd;
mod tracer;

pub use collector::Collector;
pub use events::{Events, MIXED, SWITCHES, SYSCALLS, VM};
pub use live::Live;
pub use ours::{Record, traced};
pub use perf::{Perf, Recording, counts};
pub use splice::Splice;
pub use trace_cmd::TraceCmd;
pub use tracer::{Nothing, Tracer, Wish};
