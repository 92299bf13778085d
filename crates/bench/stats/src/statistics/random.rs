//! A small generator of random numbers, so that a seed gives the same order with every version of every library.
//!
//! xoshiro256** seeded by SplitMix64: D. Blackman, S. Vigna, "Scrambled linear pseudorandom number generators",
//! ACM TOMS 47(4), 2021. Not for secrets.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut counter = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut counter)) }
    }

    /// The `index`th independent stream of a seed: what a block draws does not depend on the blocks before it.
    #[must_use]
    pub fn stream(seed: u64, index: u64) -> Self {
        let mut seed = seed;
        let mut index = index ^ 0x5851_f42d_4c95_7f2d;
        Self::new(split_mix(&mut seed) ^ split_mix(&mut index))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let out = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        out
    }

    /// Uniform in the open interval (0, 1): 52 random bits and a half.
    pub fn uniform(&mut self) -> f64 {
        ((self.next_u64() >> 12) as f64 + 0.5) / (1_u64 << 52) as f64
    }

    /// Uniform in `0..bound`, without bias; 0 for a bound of 0.
    pub fn below(&mut self, bound: usize) -> usize {
        // Lemire 2019: the high half of a product, drawn again in the few cases that would favour small numbers.
        let bound = bound as u64;
        let rest = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let product = u128::from(self.next_u64()) * u128::from(bound);
            let (high, low) = halves(product);
            if low >= rest {
                return usize::try_from(high).unwrap_or(0);
            }
        }
    }

    /// A standard normal value.
    pub fn normal(&mut self) -> f64 {
        super::normal::ppf(self.uniform())
    }

    /// Puts the items in random order, each order as likely as any other (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at + 1));
        }
    }
}

fn halves(wide: u128) -> (u64, u64) {
    let bytes = wide.to_le_bytes();
    let half = |from: usize| {
        bytes[from..from + 8].iter().rev().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte))
    };
    (half(8), half(0))
}

fn split_mix(counter: &mut u64) -> u64 {
    *counter = counter.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *counter;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_of_the_reference_implementation() {
        // splitmix64.c with x = 1234567, as listed on Rosetta Code.
        let mut counter = 1_234_567;
        let got: Vec<u64> = (0..3).map(|_| split_mix(&mut counter)).collect();
        assert_eq!(
            got,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_of_the_reference_implementation() {
        // xoshiro256starstar.c from state 1, 2, 3, 4; the first values of rand_xoshiro's test vector.
        let mut random = Random { state: [1, 2, 3, 4] };
        let got: Vec<u64> = (0..4).map(|_| random.next_u64()).collect();
        assert_eq!(got, [11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn every_order_is_as_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for index in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            Random::stream(7, index).shuffle(&mut items);
            *seen.entry(items).or_insert(0_i32) += 1;
        }
        assert_eq!(seen.len(), 24);
        // Chi-squared with 23 degrees of freedom: above 49.7 once in a thousand.
        let chi: f64 = seen.values().map(|n| f64::from(n - 1000).powi(2) / 1000.0).sum();
        assert!(chi < 49.7, "{chi}");
    }

    #[test]
    fn a_bound_of_zero_or_one_gives_zero() {
        let mut random = Random::new(1);
        assert_eq!((random.below(0), random.below(1)), (0, 0));
    }
}
