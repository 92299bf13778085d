//! Who does what: reading, merging and states in threads of their own, in batches.
//!
//! ```text
//! readers:  streams ─▶ align ─▶ batch ──(bounded channel per stream)──▶ merger
//!    ▲                                                                    │ portions: turns, and
//!    └────────────(bounded channel per reader)── empty batch: a request ──┘ the batches they open
//!                                                                         ▼ (bounded channel)
//!                                                                  states: this thread
//! ```
//! With two CPUs the merger reads for itself; with one, everything happens in the calling thread,
//! on demand. The order of items, and so the tables, are the same.
//!
//! Of each stream, [`REQUESTS`](crate::reader::REQUESTS) batches are being filled or wait for the merger; an empty batch
//! is the request to fill it, so that readers read first what is needed first and nobody ever waits
//! for room. The merger goes ahead of the states by [`PORTIONS`] portions. So memory is bounded by
//! the number of streams; where there are many, their batches are smaller ([`batch_items`](crate::reader::batch_items)).

use crate::{
    align::{Aligned, Batch, ToTrace},
    merge::{Merger, Portion},
    reader::{Reader, join},
    stream::EventStream,
};
use std::{
    num::NonZeroUsize,
    sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    thread::{Scope, ScopedJoinHandle},
};

/// Portions on their way from the merger.
const PORTIONS: usize = 3;
/// Used batches kept to be filled again.
const SPARE: usize = 64;

/// How many threads of each kind there are besides the calling one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crew {
    readers: usize,
    merger: bool,
}

impl Crew {
    /// For `asked` threads in all, or one for each CPU.
    pub(crate) fn new(asked: Option<NonZeroUsize>, streams: usize) -> Self {
        let cpus = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let threads = asked.map_or_else(cpus, NonZeroUsize::get);
        Crew { readers: threads.saturating_sub(2).min(streams), merger: threads > 1 }
    }
}

/// Where the states get their portions from.
pub(crate) enum Source<'scope, S, C> {
    /// Merged when asked for.
    Inline(Box<Merger<'scope, S, C>>),
    /// Merged ahead by a thread.
    Thread {
        portions: Receiver<Portion>,
        /// Used batches go back.
        used: SyncSender<Batch>,
        thread: ScopedJoinHandle<'scope, Vec<Aligned<S, C>>>,
    },
}

impl<'scope, S, C> Source<'scope, S, C>
where
    S: EventStream + Send + 'scope,
    C: ToTrace + Send + 'scope,
{
    /// Puts the crew to work; items from `cut` on are not wanted.
    pub(crate) fn start(
        scope: &'scope Scope<'scope, '_>,
        streams: Vec<Aligned<S, C>>,
        crew: Crew,
        cut: i64,
    ) -> Self {
        let reader = Reader::start(scope, streams, crew.readers);
        if !crew.merger {
            return Source::Inline(Box::new(Merger::new(reader, cut)));
        }
        let (made, portions) = sync_channel(PORTIONS);
        let (used, spare) = sync_channel(SPARE);
        let thread = scope.spawn(move || {
            let mut merger = Merger::new(reader, cut);
            while let Some(portion) = merger.portion() {
                if made.send(portion).is_err() {
                    break;
                }
                spare.try_iter().for_each(|batch| merger.spare(batch));
            }
            merger.finish()
        });
        Source::Thread { portions, used, thread }
    }
}

impl<S: EventStream, C: ToTrace> Source<'_, S, C> {
    /// The next portion; none at the end (or the cut).
    pub(crate) fn portion(&mut self) -> Option<Portion> {
        match self {
            Source::Inline(merger) => merger.portion(),
            Source::Thread { portions, .. } => portions.recv().ok(),
        }
    }

    /// Takes a batch back whose items are done with.
    pub(crate) fn done(&mut self, batch: Batch) {
        match self {
            Source::Inline(merger) => merger.spare(batch),
            Source::Thread { used, .. } => match used.try_send(batch) {
                // Too many spare ones, or no more are needed.
                Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
            },
        }
    }

    /// Ends it all; gives the streams back for what they counted.
    pub(crate) fn finish(self) -> Vec<Aligned<S, C>> {
        match self {
            Source::Inline(merger) => merger.finish(),
            Source::Thread { portions, thread, .. } => {
                drop(portions);
                join(thread)
            }
        }
    }
}
