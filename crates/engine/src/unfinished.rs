//! A stream whose recorder ended before it had written everything.

use crate::stream::{EventStream, LostEvents, StreamItem};
use transect_model::table::ImportLog;

/// Ends a stream with a hole: from its last event to the end of the recording, nothing is known of its CPU.
#[derive(Debug)]
pub struct Unfinished<S> {
    stream: S,
    /// Until it has been given.
    missing: Option<LostEvents>,
}

impl<S> Unfinished<S> {
    /// The stream, behind whose last event these events are missing.
    pub fn new(stream: S, missing: LostEvents) -> Self {
        Unfinished { stream, missing: Some(missing) }
    }
}

/// A CPU of which nothing was written: its stream is the hole alone.
pub fn unwritten(missing: LostEvents) -> std::vec::IntoIter<StreamItem> {
    vec![StreamItem::Lost(missing)].into_iter()
}

impl<S: EventStream> EventStream for Unfinished<S> {
    fn next_item(&mut self) -> Option<StreamItem> {
        self.stream.next_item().or_else(|| self.missing.take().map(StreamItem::Lost))
    }

    fn next_batch(&mut self, items: &mut Vec<StreamItem>, limit: usize) {
        let before = items.len();
        self.stream.next_batch(items, limit);
        if items.len() == before {
            items.extend(self.missing.take().map(StreamItem::Lost));
        }
    }

    fn problems(&self) -> Vec<ImportLog> {
        self.stream.problems()
    }

    fn left(&self) -> u64 {
        self.stream.left()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::LostCause;
    use transect_model::{
        ids::Tid,
        time::{Source, Timestamp},
    };

    #[test]
    fn the_hole_comes_once_and_last() {
        let ts = Timestamp::<Source>::new(7);
        let event = StreamItem::Other { ts, tid: Tid(1), quiet: 0 };
        let missing = LostEvents { count: Some(3), cause: LostCause::DiskFull };
        let unfinished = || Unfinished::new(vec![event, event].into_iter(), missing);
        let mut one_by_one = unfinished();
        let items: Vec<_> = std::iter::from_fn(|| one_by_one.next_item()).collect();
        assert_eq!(items, [event, event, StreamItem::Lost(missing)]);
        let mut batches = unfinished();
        let mut items = Vec::new();
        for _ in 0..5 {
            batches.next_batch(&mut items, 2);
        }
        assert_eq!(items, [event, event, StreamItem::Lost(missing)]);
    }
}
