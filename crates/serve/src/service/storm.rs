//! Memory of many clients at once, given back when they are gone.
//!
//! The allocator keeps freed memory for the threads that come next. After a storm of clients none come.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Interval at which the end of a storm is looked for.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Connections that have ended from which on it was a storm.
const MANY: usize = 32;
/// It is over when so many times fewer are open than there were.
const FEWER: usize = 4;

/// Detects the end of storms.
#[derive(Default)]
pub(crate) struct Storm {
    /// The most connections at once since the last storm.
    most: AtomicUsize,
    /// Those that have ended since then.
    ended: AtomicUsize,
}

impl Storm {
    /// So many connections are open, and one of them is used.
    pub(crate) fn add(&self, open: usize) {
        self.most.fetch_max(open, Relaxed);
    }

    pub(crate) fn end_one(&self) {
        self.ended.fetch_add(1, Relaxed);
    }

    /// True, once, if there was a storm and so few connections are open that it is over.
    pub(crate) fn is_over(&self, open: usize) -> bool {
        let (most, ended) = (self.most.load(Relaxed), self.ended.load(Relaxed));
        let is_over = ended >= MANY && open.saturating_mul(FEWER) <= most;
        if is_over {
            self.most.store(open, Relaxed);
            self.ended.store(0, Relaxed);
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storm_is_over_when_most_connections_have_gone() {
        let storm = Storm::default();
        (1..=200).for_each(|open| storm.add(open));
        // All are there, then half, then a quarter.
        assert!(!storm.is_over(200));
        (0..100).for_each(|_| storm.end_one());
        assert!(!storm.is_over(100));
        (0..50).for_each(|_| storm.end_one());
        assert!(storm.is_over(50) && !storm.is_over(50));
        (0..50).for_each(|_| storm.end_one());
        assert!(storm.is_over(0) && !storm.is_over(0));
        // A browser is none.
        (1..=6).for_each(|open| storm.add(open));
        (0..6).for_each(|_| storm.end_one());
        assert!(!storm.is_over(0));
    }
}
