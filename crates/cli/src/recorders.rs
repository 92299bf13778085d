//! Running recorders: how `record` makes itself known, and how `snapshot` and `stop` reach it.
//!
//! A recorder leaves `PID.json` (who it is, what it writes) and listens on `PID.sock` in a
//! directory only its user can enter. One command line in, one reply line out:
//!
//! ```text
//! snapshot [WINDOW]   → ok DIRECTORY | error WHY        when the snapshot is complete
//! stop                → ok DIRECTORY | error WHY        when the recording is complete
//! ```
//! WINDOW is `all`, or the length of the window, as in `--last`.
//!
//! **Why not signals?** They carry no reply. (`SIGUSR2` takes a snapshot all the same, for
//! scripts that only have a pid.)

mod client;
mod place;
mod server;
mod stale;
mod window;

pub(crate) use client::running;
pub(crate) use client::{Choice, absolute, ask, find};
pub(crate) use server::{ControlServer, Pending};
pub(crate) use stale::{Killed, remove_stale};
pub(crate) use window::SnapshotWindow;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use transect_tracefs::ProcessKey;

/// What a recorder says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecorderState {
    /// Its process id.
    pub(crate) pid: i32,
    /// That process's start time, clock ticks since boot: pids are used again.
    pub(crate) start_ticks: u64,
    /// The recording's directory; for a flight recorder the name its snapshots are made from.
    pub(crate) output: PathBuf,
    /// Does it wait for `snapshot`?
    pub(crate) flight_recorder: bool,
}

impl RecorderState {
    fn is_alive(&self) -> bool {
        ProcessKey { pid: self.pid, start_ticks: self.start_ticks }.is_alive()
    }
}

/// A request to a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Write what the flight recorder holds; the window is the recorder's own unless given.
    Snapshot(Option<SnapshotWindow>),
    /// End the recording.
    Stop,
}

impl Request {
    fn line(self) -> String {
        match self {
            Request::Snapshot(None) => "snapshot".to_owned(),
            Request::Snapshot(Some(window)) => format!("snapshot {window}"),
            Request::Stop => "stop".to_owned(),
        }
    }

    fn from_line(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            None if line == "snapshot" => Some(Request::Snapshot(None)),
            None if line == "stop" => Some(Request::Stop),
            Some(("snapshot", window)) => Some(Request::Snapshot(Some(window.parse().ok()?))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let last = SnapshotWindow::Last(Duration::from_millis(2500));
        for request in [
            Request::Snapshot(None),
            Request::Snapshot(Some(last)),
            Request::Snapshot(Some(SnapshotWindow::All)),
            Request::Stop,
        ] {
            assert_eq!(Request::from_line(&request.line()), Some(request));
        }
        for bad in ["", "snapshot x", "stop now", "snapshot 0s"] {
            assert_eq!(Request::from_line(bad), None, "{bad}");
        }
    }
}
