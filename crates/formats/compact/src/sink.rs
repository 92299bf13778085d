//! What a stream gives: events, holes, and what could not be read.

use crate::error::Problem;
use transect_model::{
    event::CoreEvent,
    ids::Tid,
    time::{Source, Timestamp},
};

/// Takes what a stream gives: implement it to get events straight where they are wanted.
pub trait Sink {
    /// An event, while thread `tid` was current on the stream's CPU. Stamps are ns of the file's
    /// clock (`CLOCK_MONOTONIC`).
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent);
    /// Events are missing between the one before and the one after.
    fn lost(&mut self, lost: Lost);
    /// Something could not be read; a [`Sink::lost`] follows where events are missing for it.
    fn problem(&mut self, problem: Problem);
}

/// One step of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// A core event.
    Event {
        /// When, in ns of the file's clock.
        ts: Timestamp<Source>,
        /// The thread that was current.
        tid: Tid,
        /// What happened.
        event: CoreEvent,
    },
    /// Events are missing here.
    Lost(Lost),
    /// Something could not be read here.
    Problem(Problem),
}

impl Sink for Vec<Item> {
    #[inline]
    fn event(&mut self, ts: Timestamp<Source>, tid: Tid, event: CoreEvent) {
        self.push(Item::Event { ts, tid, event });
    }

    fn lost(&mut self, lost: Lost) {
        self.push(Item::Lost(lost));
    }

    fn problem(&mut self, problem: Problem) {
        self.push(Item::Problem(problem));
    }
}

/// A hole in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many events, where the writer counted.
    pub count: Option<u64>,
    /// Stamps of the first and the last of them, where the writer noted them.
    pub span: Option<(Timestamp<Source>, Timestamp<Source>)>,
    /// Why.
    pub cause: LostCause,
}

/// Why events are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostCause {
    /// They found no room in the log.
    LogFull,
    /// Bytes of the log are not in the file.
    Missing,
    /// The flight recorder that wrote the log has overwritten its beginning.
    Overwritten,
    /// Bytes of the log in the file are damaged.
    Damaged,
    /// The file ends within a block of this log.
    Truncated,
}
