//! Puts slices on as few tracks as nesting allows: Perfetto's slices of one track must nest.

use super::item::Item;
use std::cmp::Reverse;

/// Sorts items by start, outer before inner, and divides them into lanes in which any two slices
/// either nest or do not touch. Sound tables need one lane.
pub(crate) fn lanes(mut items: Vec<Item>) -> Vec<Vec<Item>> {
    items.sort_by_key(|item| (item.ts, Reverse(item.end)));
    let mut lanes: Vec<Lane> = Vec::new();
    for item in items {
        match lanes.iter_mut().find_map(|lane| lane.fits(&item).then_some(lane)) {
            Some(lane) => lane.push(item),
            None => {
                let mut lane = Lane::default();
                lane.push(item);
                lanes.push(lane);
            }
        }
    }
    lanes.into_iter().map(|lane| lane.items).collect()
}

#[derive(Default)]
struct Lane {
    items: Vec<Item>,
    /// Ends of the slices open at the last item's start, outermost first.
    open: Vec<i64>,
}

impl Lane {
    fn fits(&mut self, item: &Item) -> bool {
        while self.open.last().is_some_and(|end| *end <= item.ts) {
            self.open.pop();
        }
        self.open.last().is_none_or(|end| *end >= item.end)
    }

    fn push(&mut self, item: Item) {
        self.open.push(item.end);
        self.items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::item::{Row, Shape};
    use proptest::prelude::*;

    fn slice(ts: i64, end: i64) -> Item {
        Item { ts, end, row: Row::Irq(0), shape: Shape::Slice }
    }

    #[test]
    fn what_nests_or_follows_shares_a_lane() {
        let nested = vec![slice(5, 6), slice(0, 10), slice(0, 5), slice(10, 12), slice(6, 10)];
        assert_eq!(lanes(nested).len(), 1);
    }

    #[test]
    fn what_overlaps_gets_a_lane_of_its_own() {
        let overlapping = lanes(vec![slice(0, 10), slice(5, 15), slice(15, 20)]);
        assert_eq!(overlapping.len(), 2);
        assert_eq!(overlapping[0], [slice(0, 10), slice(15, 20)]);
    }

    proptest! {
        #[test]
        fn lanes_keep_every_item_and_nest(spans in prop::collection::vec((0i64..50, 0i64..20), 0..40)) {
            let items: Vec<Item> = spans.iter().map(|(ts, dur)| slice(*ts, ts + dur)).collect();
            let lanes = lanes(items.clone());
            prop_assert_eq!(lanes.iter().map(Vec::len).sum::<usize>(), items.len());
            for lane in &lanes {
                for (at, a) in lane.iter().enumerate() {
                    for b in &lane[at + 1..] {
                        prop_assert!(b.ts >= a.end || b.end <= a.end, "{a:?} {b:?}");
                    }
                }
            }
        }
    }
}
