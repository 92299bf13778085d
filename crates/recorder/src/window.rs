//! The window of a flight recorder's snapshot.

use super::units::parse_duration;
use std::{fmt, str::FromStr, time::Duration};

/// Which stretch a snapshot is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotWindow {
    /// The stretch that the buffers of all CPUs cover.
    #[default]
    Covered,
    /// This long before the snapshot; what the buffers do not cover of it is unknown.
    Last(Duration),
    /// Everything since the recorder was started; most of it may be unknown.
    All,
}

impl FromStr for SnapshotWindow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "all" => Ok(SnapshotWindow::All),
            text => parse_duration(text)
                .map(SnapshotWindow::Last)
                .map_err(|why| format!("{why}, or all")),
        }
    }
}

impl fmt::Display for SnapshotWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SnapshotWindow::Covered => f.write_str("covered"),
            SnapshotWindow::Last(last) => write!(f, "{}us", last.as_micros()),
            SnapshotWindow::All => f.write_str("all"),
        }
    }
}
