//! Running recorders: how `record` makes itself known, and how `snapshot` and `stop` reach it.
//!
//! A recorder leaves `PID.json` (who it is, what it writes) and listens on `PID.sock` in a
//! directory only its user can enter. One command line in, one reply line out:
//!
//! ```text
//! snapshot            → ok DIRECTORY | error WHY        when the snapshot is complete
//! stop                → ok DIRECTORY | error WHY        when the recording is complete
//! ```
//!
//! **Why not signals?** They carry no reply. (`SIGUSR2` takes a snapshot all the same, for
//! scripts that only have a pid.)

mod client;
mod place;
mod server;

pub(crate) use client::{Choice, absolute, ask, find};
pub(crate) use server::{ControlServer, Pending};

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

/// What can be asked of a recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Write what the flight recorder holds.
    Snapshot,
    /// End the recording.
    Stop,
}

impl Request {
    const ALL: [Request; 2] = [Request::Snapshot, Request::Stop];

    fn word(self) -> &'static str {
        match self {
            Request::Snapshot => "snapshot",
            Request::Stop => "stop",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        Request::ALL.into_iter().find(|request| request.word() == word)
    }
}
