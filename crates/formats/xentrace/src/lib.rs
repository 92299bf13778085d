//! Codec of xentrace files: what Xen's own tracer writes, from Xen 4.14 to 4.20.
//!
//! **What.** Reads every record those versions write, and writes files that `xenalyze` reads. The
//! format, byte by byte, and every record are in this crate's `README.md`.
//!
//! **Data flow.**
//! ```text
//! mapped file ─▶ XenTrace::parse ─▶ Index (windows by pCPU)
//!                      └─ stream(cpu) ─▶ Record { tsc, event, words, row }
//!                                            ├─ typed()  ─▶ XenEvent   what states are made of
//!                                            │  (all of them at once: Stream::give)
//!                                            └─ fields() ─▶ (Field, Value)   any record, by name
//! Writer ◀─ records, or XenEvents
//! ```
//! A *window* is here what xentrace calls so: a stretch of one pCPU's records, as one poll of its
//! buffer found it. It has nothing to do with the windows of metrics.
//!
//! [`records::all`] is the one table of records: the decoder looks event numbers up in it, the
//! README's table is made from it, and [`records::schemas`] has the columns SQL shows.
//!
//! **Design constraints.** Sans-IO: the caller maps the file. A record is borrowed from the map and
//! nothing is allocated for it; memory is 16 bytes per window. Stamps are the raw TSC: only the
//! caller knows its rate. Streams of different pCPUs can be read on different cores, and one can be
//! taken up at any window ([`XenTrace::stream_of`]) or record ([`XenTrace::resume`]); their merge by
//! stamp is the caller's. Broken input never panics or hangs: either nothing can be read
//! ([`Error`], with the byte offset), or what can is, and the rest is in `problems()` of file and
//! stream. Lost records are counted and their time is known ([`Lost`]).
//!
//! ```no_run
//! use transect_xentrace::{XenEvent, XenTrace, XenVersion};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::read("trace.bin")?; // or a memory map
//! let trace = XenTrace::parse(&file, XenVersion::Minor(17))?;
//! for cpu in trace.cpus() {
//!     let mut stream = trace.stream(cpu);
//!     for record in &mut stream {
//!         match record.typed() {
//!             XenEvent::RunstateChange { vcpu, old, new } => { /* states */ }
//!             XenEvent::Lost(lost) => { /* unknown from lost.from_tsc to lost.to_tsc */ }
//!             _ => for (field, value) in record.fields() { /* columns */ }
//!         }
//!     }
//!     for problem in stream.problems() { /* import log */ }
//! }
//! # Ok(())
//! # }
//! ```

mod encode;
pub mod event;
pub mod hypercall;
pub mod index;
pub mod problem;
pub mod read;
pub mod records;
mod runstate;
mod span;
pub mod stream;
#[cfg(feature = "synthetic")]
pub mod synthetic;
pub mod word;
pub mod write;

pub use event::{EventTaker, IDLE_DOMAIN, Lost, XenEvent, XenVcpu, isa_of_reason};
pub use hypercall::Hypercall;
pub use index::{Index, Window};
pub use problem::{Error, Problem, What};
pub use read::XenTrace;
pub use records::{Field, RecordDef, Value, XenVersion};
pub use runstate::Runstate;
pub use stream::{Position, Record, Stream, Totals};
pub use write::{DEFAULT_WINDOW_BYTES, WriteError, Writer};
