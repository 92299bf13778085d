//! The timeline: what every actor of a recording did, at every scale.
//!
//! **What.** [`Build`] makes a folder `view/` of a recording's tables: of every CPU, vCPU, thread,
//! device, counter and event a [`Track`] of intervals that do not overlap, and a pyramid of tiles
//! over it. [`View`] opens it and gives tracks, keys and tiles, as Arrow IPC streams where a browser
//! asks. A tile is 512 buckets of 2^level ns: the intervals themselves where there are few, else
//! the share of each key in each bucket, rounded once from exact sums, so a summarised pixel
//! shows what was there and not a sample. docs/reference/timeline-format.md has the files and the tables.
//!
//! **Data flow.**
//! ```text
//! tables/*.parquet ─▶ rows in order of ts ─▶ intervals per track, in chunks ─▶ tiles of sums
//!      (plan, rows)        (tables)            (collect, chunk)            (pyramid, sums)
//!                            one folder of a table = one unit = one file (unit)
//! view/*.tiles ─▶ index in memory, chunks and tiles as they are asked for (view, answer)
//! tables/*.parquet ─▶ single rows by time and conditions, as they are asked for (lookup)
//! ```
//!
//! **Design constraints.** What is drawn is true: sums are whole numbers, and a test compares them
//! with the rows. The number of rows bounds the time it takes, not the memory: of each track only
//! a chunk is held, and no more than 48 MiB of all of them, per thread. The same tables give
//! the same bytes. Nothing in a file is trusted without its checksum; what is damaged is made again.
//!
//! # Example
//! ```no_run
//! # fn main() -> Result<(), transect_timeline::TimelineError> {
//! use std::sync::atomic::AtomicBool;
//! use transect_timeline::Build;
//! let build = Build {
//!     tables: "demo.transect/tables".as_ref(),
//!     parent: "demo.transect".as_ref(),
//!     threads: 2,
//!     progress: &|_| (),
//!     partial: &|_| (),
//!     stop: &AtomicBool::new(false),
//! };
//! let view = build.ensure()?;
//! for track in view.tracks() {
//!     println!("{}: {} intervals", track.name, track.intervals);
//! }
//! # Ok(())
//! # }
//! ```

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests make files as other programs do")
)]

mod answer;
mod build;
mod busy;
mod chunk;
mod collect;
mod column;
mod cursor;
mod error;
mod index;
mod inside;
mod key;
mod key_sums;
mod label;
mod lookup;
mod names;
mod next;
mod plan;
mod pyramid;
mod rows;
mod stamp;
mod sums;
mod tables;
mod tile;
mod track;
mod unit;
mod varint;
mod verify;
mod view;

pub use answer::{MAX_ROWS, MAX_TILES, TilesRequest, stream, streams};
pub use build::{Build, Progress};
pub use error::TimelineError;
pub use key::{Class, NOTHING, OTHERS};
pub use key_sums::KeySum;
pub use lookup::{Condition, Lookup, Rows, Wanted};
pub use names::Machine;
pub use next::Budget;
pub use pyramid::{EXACT_INTERVALS, MAX_LEVEL};
pub use sums::{TILE_BUCKETS, TILE_KEYS, WHOLE};
pub use tables::interrupt_name;
pub use tile::{Share, ValueBucket};
pub use track::{Actor, Kind, Shape};
pub use verify::{Verified, verify};
pub use view::{Key, Shown, Tile, Track, View};
