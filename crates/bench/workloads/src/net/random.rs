//! Random numbers that depend on the seed alone: no machine, no library version, no order of threads.

/// SplitMix64 (Steele, Lea, Flood 2014: "Fast splittable pseudorandom number generators"): 64 bits of state,
/// every seed good, streams of different seeds as good as independent.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// The stream of a seed and of a purpose: schedules, file contents and choices must not share one.
    #[must_use]
    pub(crate) fn new(seed: u64, purpose: u64) -> Self {
        let mut of_purpose = Self(purpose);
        Self(seed ^ of_purpose.bits())
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to 1, 1 excluded.
    pub(crate) fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A whole number from 0 to `below`, which is excluded and not 0.
    pub(crate) fn below(&mut self, below: usize) -> usize {
        // The high half of the product: unbiased to 2^-64 * below.
        usize::try_from((u128::from(self.bits()) * below as u128) >> 64).unwrap_or(0)
    }

    /// Exponential with a mean: the time between two arrivals of a Poisson process.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -(1.0 - self.share()).ln() * mean
    }
}

/// A choice among a few with given weights.
#[derive(Clone, Debug)]
pub(crate) struct Weighted {
    /// Running sums of the weights, the last one 1.
    sums: Vec<f64>,
}

impl Weighted {
    /// Of weights that are not negative and not all 0.
    #[must_use]
    pub(crate) fn new(weights: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = weights
            .into_iter()
            .map(|weight| {
                sum += weight;
                sum
            })
            .collect();
        for value in &mut sums {
            *value /= sum;
        }
        Self { sums }
    }

    /// Zipf over ranks 1 to `count`: the weight of rank r is 1/r.
    #[must_use]
    pub(crate) fn zipf(count: u32) -> Self {
        Self::new((1..=count.max(1)).map(|rank| 1.0 / f64::from(rank)))
    }

    /// The index of one.
    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        let at = random.share();
        self.sums.partition_point(|&sum| sum <= at).min(self.sums.len().saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // First outputs of SplitMix64 for state 0, as in the authors' reference implementation.
        let mut random = Random(0);
        assert_eq!(random.bits(), 0xe220_a839_7b1d_cdaf);
        assert_eq!(random.bits(), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn exponential_has_its_mean_and_its_deviation() {
        let mut random = Random::new(1, 2);
        let values: Vec<f64> = (0..200_000).map(|_| random.exponential(3.0)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!((mean - 3.0).abs() < 0.03, "{mean}");
        assert!((square.sqrt() - 3.0).abs() < 0.05, "{square}");
    }

    #[test]
    fn zipf_halves_from_the_first_to_the_second() {
        let zipf = Weighted::zipf(10);
        let mut random = Random::new(7, 0);
        let mut counts = [0u32; 10];
        for _ in 0..300_000 {
            counts[zipf.pick(&mut random)] += 1;
        }
        for rank in 1..10u32 {
            let ratio = f64::from(counts[0]) / f64::from(counts[rank as usize]);
            let wanted = f64::from(rank + 1);
            assert!((ratio / wanted - 1.0).abs() < 0.05, "rank {rank}: {ratio}");
        }
    }
}
