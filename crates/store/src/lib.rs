//! The recording directory: `NAME.transect/`.
//!
//! **What.** A recording is a directory of files in their natural formats. This crate makes one
//! ([`RecordingWriter`]) and opens one ([`Recording`]), whatever happened to its recorder.
//!
//! ```text
//! NAME.transect/
//!   manifest.json      machines, sources, gaps, losses, cost          (manifest/)
//!   clocks.jsonl       clock evidence, one JSON record per line
//!   host.compact       the host's events, from the compact collector (blocks; append.rs)
//!   host.dat           the same from the full one: a trace.dat v7 that trace-cmd opens
//!   guest-web1.dat     the same of a guest
//!   xen.bin            what Xen traced, where the host is its dom0 (append.rs)
//!   xen.json           Xen's version, TSC rate, scheduler, domains
//!   checksums.bin      of the files that have none of their own           (checksums.rs)
//! while recording, instead of host.dat:
//!   host.cpu0.raw …    whole ring-buffer sub-buffers, back to back     (spool.rs)
//!   host.meta/         event formats and what else explains them
//! of an excerpt of another recording, instead of sources:
//!   tables/            its tables of a stretch of time                 (excerpt.rs)
//! ```
//!
//! **Data flow.** Probes append sub-buffers to spools; at the end [`RecordingWriter::finish`]
//! copies them behind a trace.dat head without looking at them. A reader gets one contiguous
//! slice per source either way: an assembled file is mapped, a source still in spools is mapped
//! piece by piece behind a head made in memory, so that opening a killed recording needs neither
//! disk space nor write permission.
//!
//! **Design constraints.** Readable after `kill -9` or power loss up to the last whole
//! sub-buffer. The manifest is replaced atomically. Files and directories are made by
//! `transect_access` only, so that the rights of a recording do not depend on the umask (clippy.toml). Nothing a guest sends becomes a path outside
//! its folder or an unbounded file in memory.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files as other programs do")
)]

mod append;
mod assemble;
mod checksums;
pub mod error;
mod evidence;
mod excerpt;
pub mod manifest;
mod mapping;
mod names;
mod not_kept;
mod open;
mod place;
mod problem;
mod replace;
mod spool;
pub mod tables;
mod time_shift;
mod verify;
mod writer;

pub use append::AppendFile;
pub use error::StoreError;
pub use evidence::CLOCKS_FILE_NAME;
pub use excerpt::{ExcerptWriter, of_broken, open_excerpt};
pub use manifest::Manifest;
pub use mapping::Mapping;
pub use names::stem_from_name;
pub use open::{Recording, Source};
pub use problem::OpenProblem;
pub use spool::{CpuSpool, MAX_META_BYTES, SourceSpool};
pub use verify::{FileCheck, FileState, repair, verify};
pub use writer::{Finished, RecordingWriter, check_free};
