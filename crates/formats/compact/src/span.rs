//! From when to when a file has events, without reading all of them.

use crate::{LogId, read::Compact, sink::Item};
use transect_model::time::{Source, Timestamp};

impl Compact<'_> {
    /// The stamps of the first and of the last event; none without events. Takes time by the number of logs: only
    /// their ends are read.
    pub fn span(&self) -> Option<(Timestamp<Source>, Timestamp<Source>)> {
        let first = self.cpus().filter_map(|cpu| self.stream(cpu)?.find_map(stamp)).min()?;
        let last = self.logs().filter_map(|log| self.last_stamp(log)).max()?;
        Some((first, last))
    }

    fn last_stamp(&self, log: LogId) -> Option<Timestamp<Source>> {
        let chunks: Vec<_> = self.chunks(log).collect();
        let mut next = None;
        // A chunk can hold lost events alone.
        chunks.into_iter().rev().find_map(|chunk| {
            let mut stream = self.chunk_stream(log, chunk, next.replace(chunk))?;
            let mut items = Vec::new();
            while stream.fill(&mut items, usize::MAX) {}
            items.into_iter().filter_map(stamp).max()
        })
    }
}

fn stamp(item: Item) -> Option<Timestamp<Source>> {
    match item {
        Item::Event { ts, .. } => Some(ts),
        Item::Lost(_) | Item::Problem(_) => None,
    }
}
