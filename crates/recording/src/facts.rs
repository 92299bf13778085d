//! What is known about a recording besides its tables: where it lies, when it was made and how,
//! and what making it cost.

use crate::ending::Ending;
use transect_model::time::Span;
pub use transect_model::time::TimeUnit;
use transect_store::manifest::Cost;

/// The recording a report is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// The directory or file, as the user named it.
    pub path: String,
    /// Wall-clock time of its start, nanoseconds since 1970 (UTC), where known.
    pub created_unix_ns: Option<i64>,
    /// Which transect wrote it; `None` for imported files.
    pub transect_version: Option<String>,
    /// The command line that recorded it; empty where unknown.
    pub command: Vec<String>,
    /// Did the recorder end it in order?
    pub finished: bool,
    /// How it ended.
    pub ending: Ending,
    /// The window all shares refer to.
    pub window: Span,
    /// What one unit of trace time is.
    pub unit: TimeUnit,
    /// What the recording cost; `None` where transect did not record it.
    pub cost: Option<Cost>,
    /// What it takes on disk; `None` where that is not told.
    pub stored: Option<Stored>,
    /// The recording that this is a part of; `None` for whole recordings.
    pub excerpt_of: Option<String>,
    /// The filter it was recorded with, as it was given; `None` for everything.
    pub filter: Option<String>,
    /// What that filter leaves out.
    pub filter_effect: &'static str,
    /// Of a flight recorder's snapshot: why it was taken, and its window.
    pub snapshot: Option<String>,
    /// Other things the reader should know (recovered, inferred, approximated).
    pub notes: Vec<String>,
}

/// What a recording takes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Events (of Xen: records) in its sources.
    pub events: u64,
    /// Bytes of the sources; none if there are none (excerpts).
    pub source_bytes: Option<u64>,
    /// Bytes of the same events as tables, where those have been made.
    pub table_bytes: Option<u64>,
}
