//! K-way merge of streams by trace time, run by run.
//!
//! Ties go by machine, then CPU, then stream, so that the same recording always gives the same
//! tables; a host comes before its guests, so that an entry is seen before what ran inside it.
//!
//! Ring buffers of different CPUs interleave in runs (one CPU is busy while the others idle). So
//! the merge does not give items but [`Turn`]s: which stream is next, and up to where all of its
//! items come before every other stream's. Taking the items of a turn costs one comparison each;
//! only the next turn looks at the other streams.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, binary_heap::PeekMut},
};

/// An item's place in the order: its stamp and its stream's number.
pub(crate) type Place = (i64, usize);

/// One stream's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The stream.
    pub(crate) at: usize,
    /// Its items before this place come before those of all others.
    pub(crate) before: Place,
}

/// Who is next: the heads of all streams that have items.
#[derive(Clone, Debug)]
pub(crate) struct Merge {
    heads: BinaryHeap<Reverse<Place>>,
    /// Nothing from here on is given.
    end: Place,
}

impl Merge {
    /// Merges streams whose first items are at `heads`; items from `cut` on are never given.
    pub(crate) fn new(heads: impl IntoIterator<Item = Place>, cut: i64) -> Self {
        Merge { heads: heads.into_iter().map(Reverse).collect(), end: (cut, 0) }
    }

    /// The stream whose turn it is. It stays the same until [`Merge::done`] is told where it is then.
    pub(crate) fn turn(&self) -> Option<Turn> {
        let Reverse(first) = *self.heads.peek()?;
        // The second best is one of the root's two children.
        let others = self.heads.as_slice().get(1..).unwrap_or_default();
        let second = others.iter().take(2).map(|head| head.0).min();
        let before = second.map_or(self.end, |second| second.min(self.end));
        (first < before).then_some(Turn { at: first.1, before })
    }

    /// The stream whose turn it was is now at `head`, or has ended.
    pub(crate) fn done(&mut self, head: Option<i64>) {
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
            while let Some(Turn { at, before }) = merge.turn() {
                while let Some(ts) = streams[at].get(next[at]).filter(|ts| (**ts, at) < before) {
                    got.push((*ts, at));
                    next[at] += 1;
                }
                merge.done(streams[at].get(next[at]).copied());
            }
            prop_assert_eq!(got, expected);
        }
    }
}
