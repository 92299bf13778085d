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
//! - A frame is written whole, behind a skippable frame, its *note*, with its time, length and checksum. At the start
//!   the notes are read. An incomplete frame at the end of a file is cut off. Behind damage the next intact note is
//!   searched, and the windows between count as gone (`scan`, `survey`): no file is cut or deleted because of damage.
//! - Every frame of an answer is verified before the answer begins, and old files once in the background (`scrub`). An
//!   answer states the windows that are gone, and ends early if a frame is damaged between the two readings.
//! - A step of a merged series is written after its windows, so that after `kill -9` it is complete or absent.
//! - A full disk is a state that is told, and what could not be written is counted. Nothing waits for
//!   the disk but the writer thread.
//! - Readers hold the index's lock only to look: files are read without it, and one that is too old and
//!   deleted meanwhile is a gap.
//! - Time is the windows' own, so that a test can run an hour in a second.

mod cross;
mod fold;
mod frame;
mod index;
mod read;
mod rendered;
mod scan;
mod scrub;
mod segment;
mod series;
mod survey;
#[cfg(any(test, feature = "synthetic"))]
pub mod synthetic;
mod verify;
mod writer;

pub use fold::Fold;
pub use index::{Index, Numbers, State};
pub use read::{Piece, plan_verified};
pub use rendered::{COUNT, Rendered, began_unix_ns};
pub use scrub::scrub;
pub use segment::{Gone, Place};
pub use verify::{Damaged, FileReport, Repaired, Report, repair, verify};
pub use writer::{Opened, Plan, Queue};

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod killed_tests;
#[cfg(test)]
mod tests;
