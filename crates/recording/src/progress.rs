//! How far a recording has been read, for whoever waits for it.

use crate::AnyStream;
use std::sync::atomic::{AtomicU64, Ordering};
use transect_engine::{EventStream, StreamItem};
use transect_model::table::ImportLog;

/// How much of the sources has been read, in units of theirs (bytes of pages, blocks), and how
/// many events that were.
#[derive(Debug, Default)]
pub(crate) struct Read {
    left: AtomicU64,
    total: AtomicU64,
    events: AtomicU64,
}

impl Read {
    /// Done, and all of it.
    pub(crate) fn share(&self) -> (u64, u64) {
        let total = self.total.load(Ordering::Relaxed);
        (total.saturating_sub(self.left.load(Ordering::Relaxed)), total)
    }

    /// Events read so far.
    pub(crate) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// The stream, watched.
    pub(crate) fn watch<'s>(&'s self, stream: AnyStream<'s>) -> AnyStream<'s> {
        let left = stream.left();
        self.left.fetch_add(left, Ordering::Relaxed);
        self.total.fetch_add(left, Ordering::Relaxed);
        Box::new(Watched { stream, left, read: self })
    }
}

/// A stream that tells how far it is, once a batch.
struct Watched<'s> {
    stream: AnyStream<'s>,
    left: u64,
    read: &'s Read,
}

impl Watched<'_> {
    fn tell(&mut self, events: usize) {
        let left = self.stream.left();
        // What is left never grows.
        self.read.left.fetch_sub(self.left.saturating_sub(left), Ordering::Relaxed);
        self.read.events.fetch_add(events as u64, Ordering::Relaxed);
        self.left = self.left.min(left);
    }
}

impl EventStream for Watched<'_> {
    fn next_item(&mut self) -> Option<StreamItem> {
        let item = self.stream.next_item();
        self.tell(usize::from(item.is_some()));
        item
    }

    fn next_batch(&mut self, items: &mut Vec<StreamItem>, limit: usize) {
        let before = items.len();
        self.stream.next_batch(items, limit);
        self.tell(items.len().saturating_sub(before));
    }

    fn problems(&self) -> Vec<ImportLog> {
        self.stream.problems()
    }

    fn left(&self) -> u64 {
        self.stream.left()
    }
}
