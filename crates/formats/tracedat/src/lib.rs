//! Codec of trace.dat, the file format of trace-cmd and KernelShark.
//!
//! **What.** Reads versions 6 and 7 (plain, zlib, zstd; instances; host and guest pairs) and
//! writes version 7. The format is documented in trace-cmd.dat.v6(5) and .v7(5).
//!
//! **Data flow.**
//! ```text
//! mapped file ─▶ TraceDat::parse ─▶ events (EventTable), options, buffers, thread names, problems
//!                      └─ stream(buffer, cpu) ─▶ Item { Event(ts, payload) | Lost | Problem }
//! ```
//! Payloads are decoded by `transect-ftrace` with the file's own event table. Stamps are raw;
//! [`timing::Timing`] says what trace-cmd would make of them.
//!
//! **Design constraints.** Sans-IO: the caller maps the file. Memory is bounded by the metadata
//! and, per open stream, one compressed chunk (trace-cmd writes ten pages to a chunk); sizes are
//! checked against the file before anything is allocated for them. Broken input never panics or
//! hangs: either nothing can be read ([`Error`], with the byte offset), or what can is, and the
//! rest is listed in [`TraceDat::problems`] and as [`Item::Problem`].
//!
//! ```no_run
//! use transect_ftrace::CoreDecoder;
//! use transect_tracedat::{Item, TraceDat};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::read("trace.dat")?; // or a memory map
//! let trace = TraceDat::parse(&file)?;
//! let core = CoreDecoder::new(trace.events());
//! for buffer in trace.buffers() {
//!     for cpu in buffer.cpus() {
//!         let Some(mut stream) = trace.stream(buffer, cpu) else { continue };
//!         while let Some(item) = stream.next() {
//!             match item {
//!                 Item::Event { ts, payload } => {
//!                     let tid = trace.events().tid_of(payload);
//!                     let event = core.decode(payload);
//!                     # let _ = (ts, tid, event);
//!                 }
//!                 Item::Lost { count, before } => { /* mark the gap */ }
//!                 Item::Problem(problem) => { /* import log */ }
//!             }
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod metadata;
pub mod problem;
pub mod read;
pub mod text;
pub mod timing;
pub mod write;

pub use problem::{Error, Place, Problem};
pub use read::{
    Buffer, Compression, CpuData, CpuStat, Guest, Header, Item, MAGIC, Options, Stream, TraceDat,
};
pub use timing::{ShiftSample, TimeShift, Timing, Tsc2Nsec};
pub use write::{BufferSpec, CpuSpec, FileSpec, Metadata, Piece, Plan, WriteError};
