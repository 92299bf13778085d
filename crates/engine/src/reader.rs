//! Reading: the batches of all streams, filled on demand or ahead by threads.

use crate::{
    align::{Aligned, Batch, ToTrace},
    stream::{EventStream, StreamItem},
};
use std::{
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{Scope, ScopedJoinHandle},
};

/// Batches per stream on their way from a reader: one is filled while the other is used.
pub(crate) const REQUESTS: usize = 2;
/// Items in a batch at most: enough that handing it over costs nothing per item.
const MAX_BATCH_ITEMS: usize = 1024;
/// And at least.
const MIN_BATCH_ITEMS: usize = 32;
/// What all batches of all streams together may hold.
const MEMORY_BYTES: usize = 64 << 20;

/// The length of a batch, given how many streams share the memory.
pub(crate) fn batch_items(streams: usize) -> usize {
    let each = MEMORY_BYTES / (size_of::<StreamItem>() * (REQUESTS + 1) * streams.max(1));
    each.clamp(MIN_BATCH_ITEMS, MAX_BATCH_ITEMS)
}

/// The streams of one reader, and where their filled batches go.
type Share<S, C> = Vec<(Aligned<S, C>, SyncSender<Batch>)>;

/// Where the merger gets its batches from.
pub(crate) enum Reader<'scope, S, C> {
    /// Filled when asked for.
    Inline { streams: Vec<Aligned<S, C>>, limit: usize },
    /// Filled ahead by threads.
    Threads { threads: Vec<ReaderThread<'scope, S, C>>, batches: Vec<Receiver<Batch>> },
}

/// A thread and the streams it reads: those whose number divided by the number of readers leaves
/// the reader's number.
pub(crate) struct ReaderThread<'scope, S, C> {
    requests: SyncSender<(usize, Batch)>,
    thread: ScopedJoinHandle<'scope, Vec<Aligned<S, C>>>,
}

impl<'scope, S, C> Reader<'scope, S, C>
where
    S: EventStream + Send + 'scope,
    C: ToTrace + Send + 'scope,
{
    /// Starts `readers` threads; none: reads in the caller's.
    pub(crate) fn start(
        scope: &'scope Scope<'scope, '_>,
        streams: Vec<Aligned<S, C>>,
        readers: usize,
    ) -> Self {
        let limit = batch_items(streams.len());
        if readers == 0 {
            return Reader::Inline { streams, limit };
        }
        let count = streams.len();
        let mut batches = Vec::with_capacity(count);
        let mut shares: Vec<Share<S, C>> = Vec::new();
        shares.resize_with(readers, Vec::new);
        for (at, stream) in streams.into_iter().enumerate() {
            let (sender, receiver) = sync_channel(REQUESTS);
            batches.push(receiver);
            shares[at % readers].push((stream, sender));
        }
        let threads = shares.into_iter().map(|share| ReaderThread::start(scope, share, limit));
        let mut reader = Reader::Threads { threads: threads.collect(), batches };
        for _ in 0..REQUESTS {
            (0..count).for_each(|at| reader.request(at, Batch::default()));
        }
        reader
    }
}

impl<S: EventStream, C: ToTrace> Reader<'_, S, C> {
    /// How many streams there are.
    pub(crate) fn streams(&self) -> usize {
        match self {
            Reader::Inline { streams, .. } => streams.len(),
            Reader::Threads { batches, .. } => batches.len(),
        }
    }

    /// The next batch of a stream, empty at the end; `spare` is one to be filled in exchange.
    pub(crate) fn next(&mut self, at: usize, mut spare: Batch) -> Batch {
        match self {
            Reader::Inline { streams, limit } => {
                spare.clear();
                streams[at].fill(&mut spare, *limit);
                spare
            }
            Reader::Threads { batches, .. } => {
                // None: the reader is gone, which only a panic does; `finish` passes it on.
                let batch = batches[at].recv().unwrap_or_default();
                self.request(at, spare);
                batch
            }
        }
    }

    fn request(&mut self, at: usize, empty: Batch) {
        if let Reader::Threads { threads, .. } = self {
            let count = threads.len();
            // As above.
            let _ = threads[at % count].requests.send((at / count, empty));
        }
    }

    /// Ends the reading; gives the streams back for what they counted.
    pub(crate) fn finish(self) -> Vec<Aligned<S, C>> {
        let (threads, batches) = match self {
            Reader::Inline { streams, .. } => return streams,
            Reader::Threads { threads, batches } => (threads, batches),
        };
        drop(batches);
        let mut shares: Vec<_> = threads.into_iter().map(|t| t.finish().into_iter()).collect();
        let mut streams = Vec::new();
        let mut share = 0;
        while let Some(stream) = shares.get_mut(share).and_then(Iterator::next) {
            streams.push(stream);
            share = (share + 1) % shares.len();
        }
        streams
    }
}

impl<'scope, S, C> ReaderThread<'scope, S, C>
where
    S: EventStream + Send + 'scope,
    C: ToTrace + Send + 'scope,
{
    fn start(scope: &'scope Scope<'scope, '_>, share: Share<S, C>, limit: usize) -> Self {
        let (requests, asked) = sync_channel((share.len() * REQUESTS).max(1));
        let thread = scope.spawn(move || serve(share, &asked, limit));
        ReaderThread { requests, thread }
    }
}

impl<S, C> ReaderThread<'_, S, C> {
    fn finish(self) -> Vec<Aligned<S, C>> {
        drop(self.requests);
        join(self.thread)
    }
}

/// Fills batches as they come, until nobody wants any more.
fn serve<S: EventStream, C: ToTrace>(
    mut share: Share<S, C>,
    asked: &Receiver<(usize, Batch)>,
    limit: usize,
) -> Vec<Aligned<S, C>> {
    while let Ok((at, mut batch)) = asked.recv() {
        let (stream, filled) = &mut share[at];
        batch.clear();
        stream.fill(&mut batch, limit);
        if filled.send(batch).is_err() {
            break;
        }
    }
    share.into_iter().map(|(stream, _)| stream).collect()
}

/// The thread's result; its panic goes on in this one.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    match thread.join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
