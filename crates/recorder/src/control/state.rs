//! What a recorder says about itself, and what it can be asked.

use crate::window::SnapshotWindow;
use anyhow::Context as _;

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use transect_tracefs::ProcessKey;

/// What a recorder says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecorderState {
    /// Its process id.
    pub pid: i32,
    /// That process's start time, clock ticks since boot: pids are used again.
    pub start_ticks: u64,
    /// The recording's directory; for a flight recorder the name its snapshots are made from.
    pub output: PathBuf,
    /// Does it wait for `snapshot`?
    pub flight_recorder: bool,
}

impl RecorderState {
    /// This process as a recorder.
    ///
    /// # Errors
    /// There is no procfs.
    pub fn of_this_process(output: &Path, flight_recorder: bool) -> anyhow::Result<Self> {
        let me = ProcessKey::current().context("cannot read /proc/self/stat; mount procfs")?;
        let output = output.to_owned();
        Ok(RecorderState { pid: me.pid, start_ticks: me.start_ticks, output, flight_recorder })
    }

    pub(super) fn is_alive(&self) -> bool {
        ProcessKey { pid: self.pid, start_ticks: self.start_ticks }.is_alive()
    }
}

/// A request to a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Write what the flight recorder holds; the window is the recorder's own unless given.
    Snapshot(Option<SnapshotWindow>),
    /// End the recording.
    Stop,
}

impl Request {
    pub(super) fn line(self) -> String {
        match self {
            Request::Snapshot(None) => "snapshot".to_owned(),
            Request::Snapshot(Some(window)) => format!("snapshot {window}"),
            Request::Stop => "stop".to_owned(),
        }
    }

    pub(super) fn from_line(line: &str) -> Option<Self> {
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
