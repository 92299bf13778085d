//! Maps by thread number.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

/// By a number that the kernel gave: nobody can choose many of them so that they collide, and the
/// standard hasher, which guards against that, would be a tenth of what a window costs.
pub(crate) type ByNumber<V> = HashMap<u32, V, BuildHasherDefault<Spread>>;

/// Spreads a number over all bits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 divided by the golden ratio; the map takes the upper and the lower bits.
        let spread = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = spread ^ (spread >> 32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_a_row_lie_apart() {
        let map: ByNumber<u32> = (0..10_000).map(|n| (n * 4096, n)).collect();
        assert!((0..10_000).all(|n| map[&(n * 4096)] == n));
        let mut low: Vec<u64> = (0..4096_u32)
            .map(|n| {
                let mut hasher = Spread::default();
                hasher.write_u32(n << 10);
                hasher.finish() & 0xfff
            })
            .collect();
        low.sort_unstable();
        low.dedup();
        assert!(low.len() > 2000, "{}", low.len());
    }
}
