//! K-way merge of streams by trace time, holding one item per stream.
//!
//! Ties go by machine, then CPU, then stream, so that the same recording always gives the same
//! tables; a host comes before its guests, so that an entry is seen before what ran inside it.
//!
//! Ring buffers of different CPUs interleave in runs (one CPU is busy while the others idle), so
//! the merge keeps the stream it last took from outside the heap and compares it with the best of
//! the others: a run costs one comparison per item.

use std::{cmp::Reverse, collections::BinaryHeap};

/// Something that yields items in order of [`Keyed::key`].
pub(crate) trait Source {
    /// What it yields.
    type Item;
    /// The order of the item that [`Source::take`] would give; none at the end.
    fn key(&self) -> Option<i64>;
    /// The item whose key was last told; advances to the next one.
    fn take(&mut self) -> Option<Self::Item>;
}

/// Merges sources; `sources[i]` before `sources[j]` on ties for `i < j`.
pub(crate) struct Merge<S> {
    sources: Vec<S>,
    /// Key and index of every source but the current one that has an item.
    others: BinaryHeap<Reverse<(i64, usize)>>,
    current: Option<usize>,
}

impl<S: Source> Merge<S> {
    pub(crate) fn new(sources: Vec<S>) -> Self {
        let others = sources
            .iter()
            .enumerate()
            .filter_map(|(at, s)| s.key().map(|key| Reverse((key, at))))
            .collect();
        Merge { sources, others, current: None }
    }

    /// The next item of all sources and the index of the one it came from.
    pub(crate) fn next(&mut self) -> Option<(usize, S::Item)> {
        let at = self.pick()?;
        self.current = Some(at);
        self.sources[at].take().map(|item| (at, item))
    }

    /// The source whose turn it is.
    fn pick(&mut self) -> Option<usize> {
        let mine = self.current.and_then(|at| self.sources[at].key().map(|key| (key, at)));
        match (mine, self.others.peek()) {
            (Some(mine), Some(Reverse(best))) if mine > *best => {
                let Reverse((_, at)) = self.others.pop()?;
                self.others.push(Reverse(mine));
                Some(at)
            }
            (Some((_, at)), _) => Some(at),
            (None, _) => self.others.pop().map(|Reverse((_, at))| at),
        }
    }

    /// The sources, for what they counted on the way.
    pub(crate) fn sources(&self) -> &[S] {
        &self.sources
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Sorted(std::collections::VecDeque<i64>);

    impl Source for Sorted {
        type Item = i64;
        fn key(&self) -> Option<i64> {
            self.0.front().copied()
        }
        fn take(&mut self) -> Option<i64> {
            self.0.pop_front()
        }
    }

    proptest! {
        #[test]
        fn merge_is_a_stable_sort(
            mut streams in prop::collection::vec(prop::collection::vec(0i64..50, 0..40), 0..6)
        ) {
            streams.iter_mut().for_each(|s| s.sort_unstable());
            let mut expected: Vec<(i64, usize)> = streams
                .iter()
                .enumerate()
                .flat_map(|(at, s)| s.iter().map(move |ts| (*ts, at)))
                .collect();
            expected.sort();
            let mut merge =
                Merge::new(streams.into_iter().map(|s| Sorted(s.into())).collect::<Vec<_>>());
            let mut got = Vec::new();
            while let Some((at, ts)) = merge.next() {
                got.push((ts, at));
            }
            prop_assert_eq!(got, expected);
        }
    }
}
