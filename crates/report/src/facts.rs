//! What is known about a recording besides its tables, as lines of a report.

use crate::records::line;
use transect_store::manifest::Cost;

pub(crate) use transect_recording::facts::{Facts, Stored, TimeUnit};

line! {
    /// What making the recording cost the machine it was made on.
    CostLine {
        /// Wall-clock length of the recording, ns.
        wall_ns: u64,
        /// CPU time of transect in user mode, all threads, ns.
        cpu_user_ns: u64,
        /// CPU time of transect in the kernel, all threads, ns.
        cpu_sys_ns: u64,
        /// Of both, what was spent while tracing was on, ns: what disturbed the recording. The
        /// rest went into setting up, naming threads and assembling files.
        traced_cpu_ns: u64,
        /// Bytes of events written.
        bytes: u64,
        /// Events written, where counted.
        events: Option<u64>,
        /// Events lost, where counted.
        lost: Option<u64>,
    }
}

line! {
    /// The recording itself.
    RecordingLine {
        /// The directory or file, as named on the command line.
        path: String,
        /// Wall-clock time of its start, ns since 1970 (UTC); null where unknown.
        created_unix_ns: Option<i64>,
        /// The transect that wrote it; null for imported files.
        transect_version: Option<String>,
        /// The command line that recorded it, words separated by blanks; null where unknown.
        command: Option<String>,
        /// Did the recorder end it in order?
        finished: bool,
        /// Why it ended, in the recorder's words; null where unknown.
        ended_by: Option<String>,
        /// Events that were counted and not kept, behind the last one kept of their CPUs: a full file system, a failure.
        not_kept: u64,
        /// First moment of the window, ns of trace time.
        start_ns: i64,
        /// End of the window, ns of trace time.
        end_ns: i64,
        /// Length of the window, ns.
        dur_ns: i64,
        /// The host's wall clock at start_ns, ns since 1970 (UTC); null where unknown.
        start_unix_ns: Option<i64>,
        /// The host's wall clock at end_ns, ns since 1970 (UTC); null where unknown.
        end_unix_ns: Option<i64>,
        /// Error bound of wall-clock times in the window, ns; null where no wall-clock time is known.
        unix_error_ns: Option<i64>,
        /// Events (of Xen: records) in its sources; null where not told.
        events: Option<u64>,
        /// The recording that it is an excerpt of; null for whole recordings.
        excerpt_of: Option<String>,
        /// The filter it was recorded with: threads that do not pass it have no known states; null for
        /// recordings of everything.
        filter: Option<String>,
        /// Of a flight recorder's snapshot: why it was taken, and its window; null for others.
        snapshot: Option<String>,
        /// Bytes of its sources; null where not told, and of excerpts.
        source_bytes: Option<u64>,
        /// Bytes of the same events as tables; null unless those have been made.
        table_bytes: Option<u64>,
    }
}

impl From<&Cost> for CostLine {
    fn from(cost: &Cost) -> Self {
        CostLine {
            wall_ns: cost.wall_ns,
            cpu_user_ns: cost.cpu_user_ns,
            cpu_sys_ns: cost.cpu_sys_ns,
            traced_cpu_ns: cost.traced_cpu_ns,
            bytes: cost.bytes,
            events: Some(cost.events),
            lost: Some(cost.lost),
        }
    }
}

impl From<&Facts> for RecordingLine {
    fn from(facts: &Facts) -> Self {
        RecordingLine {
            path: facts.path.clone(),
            created_unix_ns: facts.created_unix_ns,
            transect_version: facts.transect_version.clone(),
            command: (!facts.command.is_empty()).then(|| facts.command.join(" ")),
            finished: facts.finished,
            ended_by: facts.ending.ended_by.clone(),
            not_kept: facts.ending.not_kept_events,
            start_ns: facts.window.start.get(),
            end_ns: facts.window.end.get(),
            dur_ns: facts.window.dur_ns(),
            // Of the report, which has the table.
            start_unix_ns: None,
            end_unix_ns: None,
            unix_error_ns: None,
            excerpt_of: facts.excerpt_of.clone(),
            filter: facts.filter.clone(),
            snapshot: facts.snapshot.clone(),
            events: facts.stored.map(|stored| stored.events),
            source_bytes: facts.stored.and_then(|stored| stored.source_bytes),
            table_bytes: facts.stored.and_then(|stored| stored.table_bytes),
        }
    }
}
