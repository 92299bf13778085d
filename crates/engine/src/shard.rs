//! Runs that are cut in time: what one shard hands to the next.
//!
//! Every analysis is init, step and finish over a state that is plain data. A [`Boundary`] is that
//! state at a cut, for all analyses and streams together: open slices and exits, who is on which
//! CPU, pending wakeups, unfinished windows, and how far each stream's clock was followed. It can be
//! written down (serde) and taken up by another process: so a recording can be worked on bucket by
//! bucket, and a run that was stopped goes on where it was.
//!
//! What it is not: a way to start in the middle without having had what comes before. Who runs,
//! waits or is halted at a moment is told by events before it, however far back.

use crate::{
    align::{Place, Resume},
    stream::StreamKey,
    world::World,
};
use serde::{Deserialize, Serialize};
use transect_model::table::ImportLog;

/// A run's state between two turns, besides its streams.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) world: World,
    pub(crate) next_gap: usize,
    /// The last event's stamp.
    pub(crate) now: i64,
    /// The last one of a root machine.
    pub(crate) end: Option<i64>,
    pub(crate) events: u64,
}

/// The state of a run at a cut, from which [`crate::Engine::resume`] goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Boundary {
    /// Items before this stamp have been taken.
    pub(crate) cut: i64,
    pub(crate) state: State,
    /// The streams in the engine's order, and how far they were read.
    pub(crate) streams: Vec<(StreamKey, Place)>,
    /// What each of them said of itself.
    pub(crate) told: Vec<Vec<Remark>>,
}

impl Boundary {
    pub(crate) fn new(
        cut: i64,
        state: State,
        streams: Vec<(StreamKey, Place)>,
        told: Vec<Vec<Remark>>,
    ) -> Self {
        Boundary { cut, state, streams, told }
    }

    /// Are these the streams, in order, that were cut?
    pub(crate) fn fits(&self, keys: &[StreamKey]) -> bool {
        self.streams.iter().map(|(key, _)| key).eq(keys)
    }

    /// How to go on in a stream.
    pub(crate) fn place(&self, at: usize) -> Resume {
        Resume { place: self.streams[at].1, from: self.cut }
    }

    pub(crate) fn into_parts(self) -> (State, Vec<Vec<Remark>>) {
        (self.state, self.told)
    }

    /// Events taken so far.
    pub fn events(&self) -> u64 {
        self.state.events
    }
}

/// A row of the import log on its way from one shard to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Remark {
    source: String,
    offset: Option<u64>,
    message: String,
    data_loss: bool,
}

impl From<ImportLog> for Remark {
    fn from(row: ImportLog) -> Self {
        let ImportLog { source, offset, message, data_loss } = row;
        Remark { source, offset, message, data_loss }
    }
}

impl From<Remark> for ImportLog {
    fn from(remark: Remark) -> Self {
        let Remark { source, offset, message, data_loss } = remark;
        ImportLog { source, offset, message, data_loss }
    }
}
