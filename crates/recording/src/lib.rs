//! A recording, opened: its facts, machines, rows, streams and tables.
//!
//! # What
//! [`Recording::open`] takes a directory made by `transect record` or `transect import`, an excerpt, or the file of another
//! recorder (trace.dat, xentrace). All are read in the same way, and all lead to the same rows.
//!
//! # Data flow
//! ```text
//! directory ─┐                                          ┌─▶ rows in a sink, or in memory
//! file ──────┴─▶ machines, sources, clock evidence ─▶ engine
//!                                                       └─▶ tables as files (made once, verified, made again)
//! excerpt ───────▶ its tables
//! ```
//! What cannot be read is a row of `import_log` with `data_loss`, and the rest is shown. Only a recording of which nothing can
//! be read is an error.
//!
//! # Example
//! ```
//! use transect_recording::Recording;
//!
//! fn exits_by_reason(path: &str) -> Result<(), Box<dyn std::error::Error>> {
//!     let tables = Recording::open(path)?.tables()?;
//!     for exit in &tables.exits {
//!         println!("{} {} {:?}", exit.ts, exit.reason, exit.dur);
//!     }
//!     Ok(())
//! }
//! # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/succeed/tracedat/pair-host.dat");
//! # exits_by_reason(file).unwrap();
//! ```

mod aside;
mod clocks;
mod directory;
pub mod ending;
mod endings;
mod excerpt;
pub mod facts;
mod files;
mod filter;
pub mod folder;
pub mod import;
mod kernel;
pub mod losses;
mod opened;
mod options;
mod place;
mod plan;
mod progress;
mod readers;
mod ready;
mod recording;
mod refine;
mod run;
mod source;
mod streams;
mod watcher;
mod window;
pub mod xen;

pub use clocks::unit;
pub use facts::{Facts, TimeUnit};
pub use opened::display_name;
pub use options::{Options, XenOptions};
pub use recording::Recording;
pub use run::{Loaded, about, events, kept, rows, rows_in_aligned_windows, tables, windows_in};
pub use source::SourceFile;
pub use streams::{AnyStream, Streams};
pub use watcher::Watcher;

pub(crate) use plan::Plan;
pub(crate) use source::{SourceBytes, left_out, parse, parse_by};
