//! K-way merge of streams by trace time, run by run.
//!
//! Ties go by machine, then CPU, then stream, so that the same recording always gives the same
//! tables; a host comes before its guests, so that an entry is seen before what ran inside it.
//!
//! Ring buffers of different CPUs interleave in runs (one CPU is busy while the others idle). So
//! the merge does not give items but [`Turn`]s: which stream is next, and how many of its items
//! come before every other stream's. Taking the items of a turn costs one comparison each; only the
//! next turn looks at the other streams. Items stay where they were decoded: a [`Portion`] is turns
//! and the batches that they are the first to reach into.

use crate::{
    align::{Aligned, Batch, ToTrace},
    reader::Reader,
    stream::EventStream,
};
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

/// Items of a portion, about.
const PORTION_ITEMS: usize = 16384;
/// Used batches kept to be filled again, besides one for each stream: what several portions that are
/// on their way hold of the longest batches.
const SPARE: usize = 64;

/// The next items are this stream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The stream.
    pub(crate) at: usize,
    /// How many items.
    pub(crate) items: usize,
    /// The stream ends behind them.
    pub(crate) ends: bool,
}

/// Some turns, and the batches that are new in them, in the order they are reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Portion {
    pub(crate) opened: Vec<(usize, Batch)>,
    pub(crate) turns: Vec<Turn>,
}

/// Merges the streams of a reader, portion by portion.
pub(crate) struct Merger<'scope, S, C> {
    reader: Reader<'scope, S, C>,
    /// Who is next; none before the first portion.
    merge: Option<Merge>,
    heads: Vec<Head>,
    spare: Vec<Batch>,
    cut: i64,
}

/// The times of the batch of a stream that is being merged.
#[derive(Clone, Debug, Default)]
struct Head {
    times: Vec<i64>,
    next: usize,
}

impl Head {
    fn time(&self) -> Option<i64> {
        self.times.get(self.next).copied()
    }
}

impl<'scope, S: EventStream, C: ToTrace> Merger<'scope, S, C> {
    /// Merges everything before `cut`.
    pub(crate) fn new(reader: Reader<'scope, S, C>, cut: i64) -> Self {
        let heads = vec![Head::default(); reader.streams()];
        Merger { reader, merge: None, heads, spare: Vec::new(), cut }
    }

    /// The next portion; none at the end. The first one has no turns, but opens every stream that
    /// has items.
    pub(crate) fn portion(&mut self) -> Option<Portion> {
        let mut portion = Portion::default();
        let Some(mut merge) = self.merge.take() else {
            for at in 0..self.heads.len() {
                self.open(at, &mut portion);
            }
            let heads = self.heads.iter().enumerate();
            let heads = heads.filter_map(|(at, head)| Some((head.time()?, at)));
            self.merge = Some(Merge::new(heads, self.cut));
            return Some(portion);
        };
        let mut items = 0;
        while items < PORTION_ITEMS
            && let Some((at, last)) = merge.next()
        {
            let turn = self.turn(at, last, PORTION_ITEMS - items, &mut portion);
            items += turn.items;
            merge.done(self.heads[at].time());
            portion.turns.push(turn);
        }
        self.merge = Some(merge);
        (!portion.turns.is_empty()).then_some(portion)
    }

    /// The items of a stream up to the time `last`, or as many as are enough.
    fn turn(&mut self, at: usize, last: i64, enough: usize, portion: &mut Portion) -> Turn {
        let mut items = 0;
        loop {
            let head = &mut self.heads[at];
            let times = &head.times[head.next..];
            let run = times.iter().position(|t| *t > last);
            let taken = run.unwrap_or(times.len());
            head.next += taken;
            items += taken;
            if run.is_some() {
                return Turn { at, items, ends: false };
            }
            if !self.open(at, portion) {
                return Turn { at, items, ends: true };
            }
            if items >= enough {
                return Turn { at, items, ends: false };
            }
        }
    }

    /// Opens the next batch of a stream, if it has any.
    fn open(&mut self, at: usize, portion: &mut Portion) -> bool {
        let batch = self.reader.next(at, self.spare.pop().unwrap_or_default());
        let head = &mut self.heads[at];
        head.times.clear();
        head.times.extend_from_slice(&batch.times);
        head.next = 0;
        if batch.times.is_empty() {
            self.spare(batch);
            return false;
        }
        portion.opened.push((at, batch));
        true
    }

    /// A batch that may be filled again.
    pub(crate) fn spare(&mut self, batch: Batch) {
        if self.spare.len() < self.heads.len() + SPARE {
            self.spare.push(batch);
        }
    }

    /// Gives the streams back for what they counted.
    pub(crate) fn finish(self) -> Vec<Aligned<S, C>> {
        self.reader.finish()
    }
}

/// An item's place in the order: its time and its stream's number.
type Place = (i64, usize);

/// Who is next: the heads of all streams that have items.
#[derive(Clone, Debug)]
struct Merge {
    heads: BinaryHeap<Reverse<Place>>,
    /// Nothing from here on is given.
    cut: i64,
}

impl Merge {
    /// Merges streams whose first items are at `heads`; items from `cut` on are never given.
    fn new(heads: impl IntoIterator<Item = Place>, cut: i64) -> Self {
        Merge { heads: heads.into_iter().map(Reverse).collect(), cut }
    }

    /// The stream whose turn it is, and the last time for which it stays that. It is the same until
    /// [`Merge::done`] is told where the stream is then.
    fn next(&self) -> Option<(usize, i64)> {
        let Reverse((first, at)) = *self.heads.peek()?;
        if first >= self.cut {
            return None;
        }
        // The second best is one of the root's two children.
        let others = self.heads.as_slice().get(1..).unwrap_or_default();
        let second = others.iter().take(2).map(|head| head.0).min();
        // Of the same time, those of the stream with the smaller number come first.
        let last = second.map_or(i64::MAX, |(t, other)| if at < other { t } else { t - 1 });
        Some((at, last.min(self.cut - 1)))
    }

    /// The stream whose turn it was is now at `head`, or has ended.
    fn done(&mut self, head: Option<i64>) {
        let Some(mut first) = self.heads.peek_mut() else { return };
        match head {
            Some(t) => first.0.0 = t,
            None => drop(PeekMut::pop(first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merge_is_a_stable_sort(
            mut streams in prop::collection::vec(prop::collection::vec(0i64..50, 0..40), 0..6),
            cut in 0i64..60,
        ) {
            streams.iter_mut().for_each(|s| s.sort_unstable());
            let mut expected: Vec<Place> = streams
                .iter()
                .enumerate()
                .flat_map(|(at, s)| s.iter().map(move |ts| (*ts, at)))
                .filter(|(ts, _)| *ts < cut)
                .collect();
            expected.sort();
            let mut next = vec![0; streams.len()];
            let heads = streams.iter().enumerate().filter_map(|(at, s)| Some((*s.first()?, at)));
            let mut merge = Merge::new(heads, cut);
            let mut got = Vec::new();
            while let Some((at, last)) = merge.next() {
                while let Some(ts) = streams[at].get(next[at]).filter(|ts| **ts <= last) {
                    got.push((*ts, at));
                    next[at] += 1;
                }
                merge.done(streams[at].get(next[at]).copied());
            }
            prop_assert_eq!(got, expected);
        }
    }
}
