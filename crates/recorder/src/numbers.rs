//! What a recording came to.

use std::{path::PathBuf, time::Duration};

/// Counts of a recording, while it is made and at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// For how long tracing has been on.
    pub elapsed: Duration,
    /// Events of the host, of Xen and of all guests.
    pub events: u64,
    /// Events that found no room in the kernel's buffers.
    pub lost: u64,
    /// Counted, and not in the recording: there was no room, or the recorder failed.
    pub not_kept: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// CPU time of this process, and of its helpers, while tracing was on, ns.
    pub cpu_ns: u64,
}

/// Result of a recording.
#[derive(Debug)]
pub struct Outcome {
    /// The recording; of a flight recorder the last snapshot, or, if it took none, the name its snapshots are made from.
    pub dir: PathBuf,
    /// What it has; of a flight recorder the sums of all snapshots.
    pub numbers: Numbers,
    /// Why it ended.
    pub ended_by: String,
    /// For people, not about errors.
    pub said: Vec<String>,
    /// Did not work, though the recording can be read.
    pub problems: Vec<String>,
    /// Why the recording ended before its time.
    pub failure: Option<anyhow::Error>,
}
