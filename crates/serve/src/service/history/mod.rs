//! What was, on disk: bounded in bytes and in time, readable by other programs, and none the worse for
//! `kill -9`.
//!
//! **What.** Three series of files below one directory, each a row of zstd frames of JSON lines: windows
//! as they were, merged to 10 s, and merged to a minute. All are written as time goes on, so that
//! nothing has to be read again to make a day fit; what is too old, or too much, is deleted file by
//! file.
//!
//! **Data flow.**
//! ```text
//! window thread ─▶ queue (bounded) ─▶ writer thread ─▶ series w │ 10s │ 1m ─▶ files
//!                                                       └─▶ index (memory) ◀─ readers plan, then read files
//! ```
//!
//! **Design constraints.**
//! - A frame is written whole, with a checksum, behind a skippable frame that says its time and length.
//!   At the start these are read and nothing else; what lies behind the last whole frame is cut off, and told.
//! - A full disk is a state that is told, and what could not be written is counted. Nothing waits for
//!   the disk but the writer thread.
//! - Readers hold the index's lock only to look: files are read without it, and one that is deleted meanwhile
//!   is a gap.
//! - Time is the windows' own, so that a test can run an hour in a second.

mod fold;
mod frame;
mod index;
mod read;
mod scan;
mod series;
mod survey;
mod verify;
mod writer;

pub(crate) use fold::Fold;
pub(crate) use index::{Index, Numbers, State};
pub(crate) use read::{Piece, plan};
pub use verify::{Damaged, FileReport, Repaired, Report, repair, verify};
pub(crate) use writer::{Opened, Plan, Queue};

#[cfg(test)]
mod tests;
