//! What a recorder reports while it runs.

use crate::numbers::Numbers;
use std::path::Path;

/// What a recorder does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Waits for guests, before the recording begins.
    WaitingForGuests,
    /// Records.
    Recording(Numbers),
    /// Holds events in memory, as a flight recorder that has taken this many snapshots.
    Holding {
        /// Snapshots taken.
        snapshots: u32,
    },
    /// Takes a snapshot.
    Snapshot,
    /// Completes the recording.
    Finishing,
}

/// A complete snapshot of a flight recorder.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// Why it was taken.
    pub why: &'a str,
    /// The recording.
    pub dir: &'a Path,
    /// What it has; the time and the CPU time count since the snapshot before.
    pub numbers: Numbers,
    /// How long its window is, and what of it the buffers cover, for people.
    pub coverage: Option<&'a str>,
}

/// Is informed of what a recorder does. `()` takes no notice.
pub trait Observer {
    /// Is it time for new numbers? (Reading them costs a little.)
    fn is_due(&self) -> bool {
        false
    }

    /// What the recorder does now; [`Status::Recording`] and [`Status::Holding`] come only if [`Observer::is_due`].
    fn status(&mut self, _status: Status) {}

    /// Something that the user should know, in one line.
    fn note(&mut self, _note: &str) {}

    /// A snapshot is complete.
    fn snapshot(&mut self, _snapshot: Snapshot<'_>) {}
}

impl Observer for () {}
