//! Codec of compact, transect's own wire and file format: 8 to 24 bytes a record.
//!
//! **What.** Core events as records of one to three 64-bit words with time deltas, in per-CPU logs
//! made of 32 KiB chunks; and files that hold slices of such logs. The format is documented byte
//! by byte in this crate's `README.md`. BPF programs, the guest agent and the guest module write
//! it; this crate reads it, and writes it for whoever has events but no kernel memory.
//!
//! **Data flow.**
//! ```text
//! core events ─▶ LogWriter ─┐
//! kernel log ───────────────┴▶ Slice ─▶ BlockWriter / slice_header ─▶ file
//! file ─▶ Compact::parse ─▶ header, names, totals, problems
//!              └─ stream(cpu) ─▶ Item { Event(ts, tid, CoreEvent) | Lost | Problem }
//! ```
//!
//! **Design constraints.** Sans-IO: the caller maps the file. No allocation per event; memory is
//! bounded by 48 bytes per block (of at least 64) and, per open stream, one decompressed block
//! (512 KiB). Broken input never panics or hangs: either nothing can be read ([`Error`]), or what
//! can is, and the rest is in [`Compact::problems`] and [`Item::Problem`], with byte offsets.
//! Lost events are items of the stream. A stream is `Send` and begins at any chunk, so CPUs and
//! parts of a CPU's log are read in parallel.
//!
//! Events do not repeat names: the `comm` of a thread is empty unless the record tells it. Names
//! are in [`Compact::names`] and come as `TaskRename` when they change; a forked thread has its
//! parent's name. Priorities nobody told are [`PRIO_UNKNOWN`].
//!
//! ```
//! use transect_compact::{BlockWriter, Compact, FileHeader, Item, LogId, LogWriter, Totals};
//! use transect_model::{event::CoreEvent, exit::Isa, ids::{CpuId, Tid}};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, ""))?;
//! let mut log = LogWriter::new(LogId { cpu: CpuId(0), side: 0 });
//! log.event(1_000, Tid(42), &CoreEvent::SyscallEnter { nr: 39 }, &mut file)?;
//! log.event(1_180, Tid(42), &CoreEvent::SyscallExit { nr: 39, ret: 42 }, &mut file)?;
//! log.finish(&mut file)?;
//! assert_eq!(log.position(), 24 + 8, "SYNC, and both events in one word");
//! let file = file.finish(&Totals::default())?;
//!
//! let compact = Compact::parse(&file)?;
//! let stream = compact.stream(CpuId(0)).ok_or("CPU 0 has no log")?;
//! let stamps: Vec<u64> = stream
//!     .filter_map(|item| if let Item::Event { ts, .. } = item { Some(ts.get()) } else { None })
//!     .collect();
//! assert_eq!(stamps, [1_000, 1_180]);
//! # Ok(())
//! # }
//! ```

mod block;
mod block_ref;
mod columns;
mod count;
mod decode;
mod encode;
mod error;
mod exits;
mod header;
pub mod kind;
mod log;
mod merge;
mod names;
pub mod other;
mod read;
mod record;
mod repack;
mod sink;
mod span;
mod squeeze;
mod stacks;
mod stream;
mod totals;
mod write;

pub use block::{BLOCK_HEADER_BYTES, BLOCK_MAGIC, MAX_BLOCK_CHUNKS, MAX_RAW_BYTES};
pub use count::count_events;
pub use error::{Error, LogId, Problem, What};
pub use header::{FileHeader, KindRow, MAGIC, VERSION, VERSIONS};
pub use log::{Carried, LogWriter, Slice, SliceSink};
pub use merge::Stream;
pub use names::Names;
pub use read::{ChunkRef, Compact, is_compact};
pub use record::{
    A_BITS, CHUNK_BYTES, CHUNK_WORDS, DELTA_LIMIT_NS, PRIO_UNKNOWN, REASON_INVALID, SYNC_FIRST,
    SYNC_SIDE, VCPU_UNKNOWN, VCPU_UNKNOWN_S, WORD_BYTES,
};
pub use repack::{Packer, RepackError, repack};
pub use sink::{Item, Lost, LostCause, Sink};
pub use stacks::{StackNotes, stack_notes};
pub use stream::LogStream;
pub use totals::{LogTotals, Totals};
pub use write::{
    BlockWriter, HeaderBytes, end_block, names_blocks, note_block, padding, slice_header,
};
