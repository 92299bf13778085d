//! A recording's tables as Parquet files.
//!
//! **What.** `tables/` in a recording holds every table of the model, made from the sources when
//! they are first asked for and made again when the sources, the options or the tables' definition
//! have changed. README.md beside this file describes the files; any Parquet reader reads them.
//!
//! **Data flow.**
//! ```text
//! engine ─▶ Row ─▶ TablesWriter: a buffer per table and machine ─┐
//! sources ─▶ record ─▶ EventsWriter: a buffer per event ─────────┤ full: 2¹⁸ rows
//!                       lane (files, in order) ◀── row group ◀── threads: sort, transpose, encode
//! ```
//!
//! **Design constraints.** Memory is bounded by the buffers, whatever the recording's length. The
//! thread that makes rows only moves them into a buffer; sorting, encoding and compression are done
//! by others. Files are in order of `ts`. A folder of tables is whole or absent: it is made beside
//! its place and renamed.

mod events;
mod excerpt;
mod group;
mod lane;
mod part;
mod place;
mod pool;
mod range;
mod read;
mod schema;
mod stamp;
mod transpose;
mod writer;
mod written;

pub use events::{EventSource, SourceEvents, write_events};
pub use excerpt::Cut;
pub(crate) use place::TABLES as FOLDER;
pub use place::{TablesFolder, cache_for, ensure, events_bytes};
pub use range::Range;
pub(crate) use read::{TableFile, folders};
pub use read::{read_rows, span_of};
pub(crate) use stamp::Read as StampRead;
pub use stamp::{Basis, STAMP_FILE_NAME, Stamp};
pub use writer::TablesWriter;
pub use written::{Problem, Problems, Written};
