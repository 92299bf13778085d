//! Memory of many clients at once, given back when they are gone.
//!
//! The allocator keeps freed memory for the threads that come next. After a storm of clients none come.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Connections at once from which on it is a storm.
const MANY: usize = 8;
/// It is over when so many times fewer are open than there were.
const FEWER: usize = 4;

/// Detects the end of storms.
#[derive(Default)]
pub(crate) struct Storm {
    /// The most connections at once since the last storm.
    most: AtomicUsize,
}

impl Storm {
    /// So many connections are open, and one of them is used.
    pub(crate) fn add(&self, open: usize) {
        self.most.fetch_max(open, Relaxed);
    }

    /// A connection has gone, so many are left. True if a storm is over with it.
    pub(crate) fn is_over(&self, left: usize) -> bool {
        let most = self.most.load(Relaxed);
        let is_over = most >= MANY && left.saturating_mul(FEWER) <= most;
        // Of several that see it, one does the work.
        is_over && self.most.compare_exchange(most, left, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_is_over_when_most_connections_have_gone() {
        let storm = Storm::default();
        (1..=200).for_each(|open| storm.add(open));
        let ends: Vec<usize> = (0..200).rev().filter(|left| storm.is_over(*left)).collect();
        assert_eq!(ends, [50, 12, 3]);
        // A browser is none.
        (1..=6).for_each(|open| storm.add(open));
        assert!(!(0..6).rev().any(|left| storm.is_over(left)));
    }
}
