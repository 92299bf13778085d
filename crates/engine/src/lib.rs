//! Events in, tables out: aligns and merges streams, and divides time into states.
//!
//! **What.** The engine reads one stream per CPU of every machine, puts all of them on trace time,
//! merges them, and runs the state machines of the model over the result: where each vCPU is, what
//! each thread does, who has each CPU, how long each VM exit takes – and for guest threads, where
//! they *really* were while their own kernel believed they ran.
//!
//! **Data flow.**
//! ```text
//! EventStream (per machine, CPU) ─▶ align (clock → trace time) ─▶ merge (k-way, by runs)
//!    ─▶ dispatch (tracepoint → state machines) ─▶ states ─▶ rows ─▶ TableSink
//! ```
//! in batches, and in threads of their own up to the merge, if there is more than one CPU. A run
//! can be cut in time and taken up again elsewhere ([`Engine::run_until`], [`Engine::resume`]): its
//! rows are the same. Live views are such runs: a [`Feed`] takes events as they come.
//!
//! **Design constraints.**
//! - States tile time: for every vCPU and every CPU with a stream, the rows' durations add up to
//!   the recording's span to the nanosecond; a thread's rows tile its life within it.
//! - Nothing is claimed that the trace does not tell. Lost events make `unknown`; what the first
//!   event tells about the time before it is used only where it is certain.
//! - Bounded memory: a few batches per stream (64 MiB for all of them), state per actor, and small,
//!   capped queues. Nothing grows with the number of events but the rows, which are the sink's.
//! - Time grows with the number of events, and not with that of CPUs, VMs or threads.
//! - No I/O, no panics, whatever the events say; contradictions are counted and told.
//! - No allocation per event on the hot path.
//!
//! The span is from the first to the last event of the root machines (those that run on no other
//! machine of the recording): a guest's events outside it have nothing to be held against.
//!
//! ```
//! use transect_engine::{Engine, Input, Options, StreamItem, StreamKey, ToTrace, Topology};
//! use transect_engine::topology::MachineInfo;
//! use transect_model::event::{Comm, CoreEvent, PrevState};
//! use transect_model::ids::{CpuId, MachineId, Tid};
//! use transect_model::table::Tables;
//! use transect_model::time::{Source, Timestamp, Trace};
//!
//! /// Stamps that are trace time already.
//! struct Nanoseconds;
//! impl ToTrace for Nanoseconds {
//!     fn to_trace(&self, ts: Timestamp<Source>) -> Option<Timestamp<Trace>> {
//!         i64::try_from(ts.get()).ok().map(Timestamp::new)
//!     }
//! }
//!
//! let switch = |ts, prev, next| StreamItem::Event {
//!     ts: Timestamp::new(ts),
//!     tid: Tid(prev),
//!     quiet: 0,
//!     event: CoreEvent::SchedSwitch {
//!         prev: Tid(prev), prev_comm: Comm::default(), prev_prio: 120, prev_state: PrevState(1),
//!         next: Tid(next), next_comm: Comm::default(), next_prio: 120,
//!     },
//! };
//! let stream = vec![switch(100, 0, 42), switch(250, 42, 0)].into_iter();
//! let key = StreamKey { machine: MachineId(0), cpu: CpuId(0) };
//! let topology =
//!     Topology { machines: vec![MachineInfo::host(MachineId(0), "host")], ..Topology::default() };
//! let mut tables = Tables::default();
//! Engine::new(topology, Options::default())
//!     .run(vec![Input { key, stream, clock: Nanoseconds }], &mut tables)?;
//! assert_eq!((tables.cpu_slices[0].tid, tables.cpu_slices[0].dur), (Some(Tid(42)), 150));
//! # Ok::<(), transect_engine::EngineError>(())
//! ```

pub mod align;
mod at;
mod causes;
pub mod compact;
pub mod dat;
mod dispatch;
pub mod engine;
pub mod feed;
pub mod filter;
mod hypervisor;
mod infer;
mod io;
mod merge;
mod notes;
mod packets;
mod pipeline;
mod problems;
pub mod ran;
mod reader;
mod requests;
mod shard;
mod states;
pub mod stream;
#[cfg(feature = "synthetic")]
pub mod synthetic;
pub mod topology;
pub mod unfinished;
mod wanted;
mod world;
pub mod xen;
pub mod xen_chunks;

pub use align::{Input, ToTrace};
pub use engine::{Engine, EngineError, MachineGap, Options, Summary};
pub use feed::Feed;
pub use filter::{Filter, ThreadFilter};
pub use shard::Boundary;
pub use states::check::ShiftTest;
pub use stream::{EventStream, LostCause, LostEvents, StreamItem, StreamKey};
pub use topology::Topology;
