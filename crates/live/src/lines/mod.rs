//! Snapshots as text, both ways: what `transect top --log x.jsonl` writes and replays.
//!
//! **What.** A window is a line of the table `snapshot`, which says how many rows follow, and these rows:
//! one JSON object a line, with its `table` and the columns that [`Snapshot::each_row`] gives. Rows with a
//! distribution have it as `lengths`: `[from_ns, count]` for each bucket in use.
//!
//! ```text
//! {"table":"snapshot","ts":5000000000,"dur":1000000000,"ended_unix_ns":…,"missed_windows":0,"rows":412}
//! {"table":"machines","ts":5000000000,"dur":1000000000,"machine_id":0,"parent_id":null,…}
//! {"table":"windows","ts":5000000000,"dur":1000000000,"machine_id":1,"vcpu":0,…}
//! {"table":"window_details",…,"lengths":[[512,3],[4096,1]]}
//! ```
//!
//! **Constraints.** What [`Reader`] gives equals what [`write`] was given, but for what is not written:
//! numbers in columns that are missing (null, and 0 again when read), and of exit reasons without a name
//! the instruction set ([`transect_model::from_cell`]). A log that was cut (the writer was killed) is read
//! up to its last whole window, and the rest is told. Windows stand by themselves: logs can be cut
//! before any `snapshot` line, and one be appended to another.
//!
//! ```
//! use transect_live::{Snapshot, lines};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut log = Vec::new();
//! lines::write(&Snapshot { dur: 7, ..Snapshot::default() }, &mut log)?;
//! log.extend(b"{\"table\":\"snaps");
//! let mut windows = lines::Reader::new(log.as_slice());
//! assert_eq!(windows.next().ok_or("nothing")??.dur, 7);
//! let cut = windows.next().ok_or("not told")?.unwrap_err();
//! assert!(cut.to_string().starts_with("line 3: the log ends inside a window"));
//! # Ok(())
//! # }
//! ```
//!
//! [`Snapshot::each_row`]: crate::Snapshot::each_row

mod blank;
mod building;
mod cells;
mod read;
mod write;

pub use read::{LinesError, Reader};
pub use write::{Rendered, push_rendered, write, write_object};

#[cfg(test)]
mod tests;
