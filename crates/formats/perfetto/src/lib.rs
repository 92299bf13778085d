//! Writes Perfetto traces: the tables of a recording as tracks that ui.perfetto.dev shows.
//!
//! **What.** Three layers, each usable alone: the protobuf wire format ([`wire`]), a trace of
//! tracks and events ([`TraceWriter`]), and the mapping from tables to tracks ([`timeline`]).
//!
//! **Data flow.**
//! ```text
//! Tables ─▶ timeline: one list of slices per track ─▶ k-way merge by ts ─▶ TraceWriter ─▶ bytes
//! ```
//!
//! **Design constraints.**
//! - No protobuf library and no generated code: the handful of messages needed is written by hand
//!   and checked against Perfetto's published schema by `tests/perfetto/check.py`.
//! - Sans-IO: bytes go to any [`std::io::Write`]; nothing is opened here.
//! - Nothing is rounded or dropped: each slice is one table row, its `ts` and `dur` to the
//!   nanosecond, its other columns as debug annotations.
//! - Bounded memory besides the tables: 24 bytes per slice, one open stack per track.
//! - Tracks are *named* tracks with explicit parents rather than Perfetto's process and thread
//!   tracks: those are keyed by pid and tid alone, and tid 42 of a guest is not tid 42 of its host.
//!
//! ```
//! use transect_model::table::Tables;
//! let mut bytes = Vec::new();
//! let written = transect_perfetto::timeline::write(&Tables::default(), "ns", &mut bytes)?;
//! assert_eq!(written.slices, 0);
//! # Ok::<(), transect_perfetto::WriteError>(())
//! ```

pub mod timeline;
pub mod wire;
mod writer;

pub use writer::{CounterUnit, Note, Sample, TraceWriter, Track};

/// Why a trace could not be written.
#[derive(Debug)]
pub enum WriteError {
    /// The sink refused bytes.
    Io(std::io::Error),
    /// A stamp or length does not fit Perfetto's unsigned 64-bit nanoseconds: broken input.
    Range {
        /// The table.
        table: &'static str,
        /// The row's `ts`.
        ts: i64,
        /// The row's `dur`.
        dur: i64,
    },
    /// More rows in one table than a trace can number (2^32).
    TooManyRows(&'static str),
}

impl std::fmt::Display for WriteError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WriteError::Io(error) => write!(f, "cannot write the trace: {error}"),
            WriteError::Range { table, ts, dur } => write!(
                f,
                "{table} has a row with ts {ts} and dur {dur}, which does not fit a trace: the \
                 recording's timestamps are corrupt"
            ),
            WriteError::TooManyRows(table) => {
                write!(f, "{table} has more than 4294967295 rows: export a range of the recording")
            }
        }
    }
}

impl std::error::Error for WriteError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WriteError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<std::io::Error> for WriteError {
    fn from(error: std::io::Error) -> Self {
        WriteError::Io(error)
    }
}
