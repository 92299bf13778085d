//! Random cases for property tests: seeded, so that a failure can be run again.
//!
//! proptest would change the features of crates that DataFusion shares, and so have all of it
//! compiled twice, for tests and for the binary.

use std::ops::Range;

/// SplitMix64: every seed gives another sequence.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn any(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in the range.
    pub(crate) fn int(&mut self, range: Range<i64>) -> i64 {
        range.start + i64::try_from(self.any() % range.end.abs_diff(range.start)).unwrap()
    }

    /// Any signed number; small ones are as likely as large ones.
    pub(crate) fn wide(&mut self) -> i64 {
        let shift = self.any() % 64;
        self.any().cast_signed() >> shift
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.any().is_multiple_of(n)
    }

    /// Up to `max` things.
    pub(crate) fn list<T>(&mut self, max: i64, mut thing: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.int(0..max + 1)).map(|_| thing(self)).collect()
    }
}

/// Runs a property for many seeds; the one that fails is printed.
pub(crate) fn cases(count: u64, property: impl Fn(&mut Random) + std::panic::RefUnwindSafe) {
    for seed in 0..count {
        let failed = std::panic::catch_unwind(|| property(&mut Random(seed))).is_err();
        assert!(!failed, "the property fails for seed {seed}");
    }
}
