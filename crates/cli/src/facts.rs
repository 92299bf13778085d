//! What is known about a recording besides its tables: where it lies, when it was made and how,
//! and what making it cost.

use crate::records::line;
use transect_model::time::Span;

/// The recording a report is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Facts {
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
    pub cost: Option<CostLine>,
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

/// How a recording ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Ending {
    /// The recorder's word for it: `duration elapsed`, `disk_full`; none if it did not write one.
    pub ended_by: Option<String>,
    /// Does its recorder still run?
    pub is_running: bool,
    /// Process of the recorder, where known.
    pub recorder_pid: Option<i32>,
    /// Events that were counted and not kept, by CPU, as text; none if all were kept.
    pub not_kept: Option<String>,
    /// Their number, as far as they were counted.
    pub not_kept_events: u64,
    /// Guests that were lost and did not come back, each with the cause.
    pub lost_guests: Vec<String>,
}

impl Ending {
    /// Was it ended by a failure of the recorder?
    pub(crate) fn is_early(&self) -> bool {
        let is_failure = |reason: &String| reason == "disk_full" || reason.starts_with("failure");
        self.not_kept.is_some() || self.ended_by.as_ref().is_some_and(is_failure)
    }

    /// The ending as a sentence.
    pub(crate) fn describe(&self, finished: bool) -> String {
        let mut text = self.describe_host(finished);
        for guest in &self.lost_guests {
            text +=
                &format!("; the guest {guest} was lost before the end and is unknown from then on");
        }
        text
    }

    fn describe_host(&self, finished: bool) -> String {
        let reason = self.ended_by.as_deref();
        let reason = match reason {
            Some("disk_full") => Some("the file system was full"),
            other => other,
        };
        let not_kept = match &self.not_kept {
            Some(text) => format!("; not kept, and unknown from the last event kept on: {text}"),
            None => String::new(),
        };
        let pid = self.recorder_pid.map_or_else(String::new, |pid| format!(" (pid {pid})"));
        match reason {
            _ if !finished && self.is_running => {
                format!(
                    "not yet: its recorder{pid} still runs; only data that reached the disk is shown"
                )
            }
            _ if !finished => format!(
                "abnormally: its recorder{pid} was killed, or the machine went down; events that had not been \
                 written are missing, and each CPU is unknown from its last event on"
            ),
            Some(reason) if self.is_early() => format!("early: {reason}{not_kept}"),
            Some(reason) => format!("normally: {reason}"),
            None => format!("normally{not_kept}"),
        }
    }
}

/// What one unit of trace time is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Ticks of a counter whose rate the recording does not say.
    Ticks,
}

impl TimeUnit {
    /// The word in JSON.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Ticks => "ticks",
        }
    }
}

/// What a recording takes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Events (of Xen: records) in its sources.
    pub events: u64,
    /// Bytes of the sources; none if there are none (excerpts).
    pub source_bytes: Option<u64>,
    /// Bytes of the same events as tables, where those have been made.
    pub table_bytes: Option<u64>,
}

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

impl Facts {
    /// The facts as one record.
    pub(crate) fn line(&self) -> RecordingLine {
        RecordingLine {
            path: self.path.clone(),
            created_unix_ns: self.created_unix_ns,
            transect_version: self.transect_version.clone(),
            command: (!self.command.is_empty()).then(|| self.command.join(" ")),
            finished: self.finished,
            ended_by: self.ending.ended_by.clone(),
            not_kept: self.ending.not_kept_events,
            start_ns: self.window.start.get(),
            end_ns: self.window.end.get(),
            dur_ns: self.window.dur_ns(),
            // Of the report, which has the table.
            start_unix_ns: None,
            end_unix_ns: None,
            unix_error_ns: None,
            excerpt_of: self.excerpt_of.clone(),
            filter: self.filter.clone(),
            snapshot: self.snapshot.clone(),
            events: self.stored.map(|stored| stored.events),
            source_bytes: self.stored.and_then(|stored| stored.source_bytes),
            table_bytes: self.stored.and_then(|stored| stored.table_bytes),
        }
    }
}
