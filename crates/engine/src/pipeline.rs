//! Reading, decoding and aligning in worker threads, in batches.
//!
//! ```text
//! worker: streams ─▶ align ─▶ batch ──(bounded channel per stream)──▶ merge, states: this thread
//!    ▲                                                                      │
//!    └──────────────(bounded channel per worker)── empty batch: a request ──┘
//! ```
//! Every stream has [`BATCHES`] batches, and no more, that go round: an empty one is the request
//! to fill it. So memory is bounded by the number of streams (the batches get smaller where there
//! are many, see [`batch_items`]), nobody ever waits for room in a channel, and a worker reads
//! what will be needed first.
//!
//! With one CPU, or one worker asked for, the same is done without threads.

use crate::{
    align::{Aligned, Item, ToTrace},
    stream::{EventStream, StreamItem},
};
use std::{
    num::NonZeroUsize,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{Scope, ScopedJoinHandle},
};

/// Batches per stream: one is filled while the other is used.
const BATCHES: usize = 3;
/// Items in a batch at most: enough that handing it over costs nothing per item, few enough that
/// the batches of a dozen CPUs stay in the L2 cache.
const MAX_BATCH_ITEMS: usize = 4096;
/// And at least.
const MIN_BATCH_ITEMS: usize = 32;
/// What all batches of all streams together may hold.
const MEMORY_BYTES: usize = 64 << 20;

/// Items of one stream.
pub(crate) type Batch = Vec<Item>;

/// The length of a batch, given how many streams share the memory.
fn batch_items(streams: usize) -> usize {
    let each = MEMORY_BYTES / (size_of::<Item>() * BATCHES * streams.max(1));
    each.clamp(MIN_BATCH_ITEMS, MAX_BATCH_ITEMS)
}

/// The streams of one worker, and where their filled batches go.
type Share<S, C> = Vec<(Aligned<S, C>, SyncSender<Batch>)>;

/// Where the merge gets its batches from.
pub(crate) enum Reader<'scope, S, C> {
    /// Filled when asked for.
    Inline { streams: Vec<Aligned<S, C>>, raw: Vec<StreamItem>, limit: usize },
    /// Filled ahead by workers.
    Threads { workers: Vec<Worker<'scope, S, C>>, batches: Vec<Receiver<Batch>> },
}

/// A thread and the streams it reads: those whose number divided by the number of workers leaves
/// the worker's number.
pub(crate) struct Worker<'scope, S, C> {
    requests: SyncSender<(usize, Batch)>,
    thread: ScopedJoinHandle<'scope, Vec<Aligned<S, C>>>,
}

/// Worker threads for `streams` streams: the merging thread keeps a CPU for itself.
pub(crate) fn workers(asked: Option<NonZeroUsize>, streams: usize) -> usize {
    let cpus = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    asked.map_or_else(cpus, NonZeroUsize::get).saturating_sub(1).min(streams)
}

impl<'scope, S, C> Reader<'scope, S, C>
where
    S: EventStream + Send + 'scope,
    C: ToTrace + Send + 'scope,
{
    /// Starts `workers` threads; none: reads in this one.
    pub(crate) fn start(
        scope: &'scope Scope<'scope, '_>,
        streams: Vec<Aligned<S, C>>,
        workers: usize,
    ) -> Self {
        let limit = batch_items(streams.len());
        if workers == 0 {
            return Reader::Inline { streams, raw: Vec::new(), limit };
        }
        let count = streams.len();
        let mut batches = Vec::with_capacity(count);
        let mut shares: Vec<Share<S, C>> = Vec::new();
        shares.resize_with(workers, Vec::new);
        for (at, stream) in streams.into_iter().enumerate() {
            let (sender, receiver) = sync_channel(BATCHES);
            batches.push(receiver);
            shares[at % workers].push((stream, sender));
        }
        let workers = shares.into_iter().map(|share| Worker::start(scope, share, limit));
        let mut reader = Reader::Threads { workers: workers.collect(), batches };
        for _ in 0..BATCHES {
            (0..count).for_each(|at| reader.request(at, Batch::new()));
        }
        reader
    }
}

impl<S: EventStream, C: ToTrace> Reader<'_, S, C> {
    /// The first batch of a stream; empty if it has no items.
    pub(crate) fn first(&mut self, at: usize) -> Batch {
        match self {
            Reader::Inline { .. } => self.next(at, Batch::new()),
            Reader::Threads { batches, .. } => batches[at].recv().unwrap_or_default(),
        }
    }

    /// The next batch of a stream in exchange for the one before; empty at the end.
    pub(crate) fn next(&mut self, at: usize, mut used: Batch) -> Batch {
        match self {
            Reader::Inline { streams, raw, limit } => {
                used.clear();
                streams[at].fill(raw, &mut used, *limit);
                used
            }
            Reader::Threads { .. } => {
                self.request(at, used);
                self.first(at)
            }
        }
    }

    fn request(&mut self, at: usize, empty: Batch) {
        if let Reader::Threads { workers, .. } = self {
            let count = workers.len();
            // A worker that is gone has panicked: `finish` says so.
            let _ = workers[at % count].requests.send((at / count, empty));
        }
    }

    /// Ends the reading; gives the streams back for what they counted.
    pub(crate) fn finish(self) -> Vec<Aligned<S, C>> {
        let (workers, batches) = match self {
            Reader::Inline { streams, .. } => return streams,
            Reader::Threads { workers, batches } => (workers, batches),
        };
        drop(batches);
        let mut shares: Vec<_> = workers.into_iter().map(|w| w.finish().into_iter()).collect();
        let mut streams = Vec::new();
        let mut share = 0;
        while let Some(stream) = shares.get_mut(share).and_then(Iterator::next) {
            streams.push(stream);
            share = (share + 1) % shares.len();
        }
        streams
    }
}

impl<'scope, S, C> Worker<'scope, S, C>
where
    S: EventStream + Send + 'scope,
    C: ToTrace + Send + 'scope,
{
    fn start(scope: &'scope Scope<'scope, '_>, share: Share<S, C>, limit: usize) -> Self {
        let (requests, asked) = sync_channel((share.len() * BATCHES).max(1));
        let thread = scope.spawn(move || serve(share, &asked, limit));
        Worker { requests, thread }
    }
}

impl<S, C> Worker<'_, S, C> {
    fn finish(self) -> Vec<Aligned<S, C>> {
        drop(self.requests);
        match self.thread.join() {
            Ok(streams) => streams,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Fills batches as they come, until nobody wants any more.
fn serve<S: EventStream, C: ToTrace>(
    mut share: Share<S, C>,
    asked: &Receiver<(usize, Batch)>,
    limit: usize,
) -> Vec<Aligned<S, C>> {
    let mut raw = Vec::new();
    while let Ok((at, mut batch)) = asked.recv() {
        let (stream, filled) = &mut share[at];
        batch.clear();
        stream.fill(&mut raw, &mut batch, limit);
        if filled.send(batch).is_err() {
            break;
        }
    }
    share.into_iter().map(|(stream, _)| stream).collect()
}
