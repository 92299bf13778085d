//! How durations are distributed, by buckets a quarter of a power of two wide.

use transect_bpf::live::{BUCKETS, bucket_bounds_ns};

/// Counts by length. The bounds of the buckets are [`bucket_bounds_ns`]'s.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// From the bucket `first` on; those beside them are 0. Most threads have no waits in most windows, and lengths
    /// of one kind lie close together: a whole array would be most of a window's memory.
    counts: Vec<u64>,
    first: usize,
}

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        self.used().eq(other.used())
    }
}

impl Eq for Histogram {}

impl Histogram {
    /// The buckets in use, and how many lie in each.
    fn used(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(at, count)| (self.first + at, *count))
    }

    /// The counts from bucket `first` to bucket `last`.
    fn range_mut(&mut self, first: usize, last: usize) -> &mut [u64] {
        if self.counts.is_empty() {
            self.first = first;
        }
        if first < self.first {
            self.counts.splice(0..0, std::iter::repeat_n(0, self.first - first));
            self.first = first;
        }
        if self.first + self.counts.len() <= last {
            self.counts.resize(last + 1 - self.first, 0);
        }
        self.counts.get_mut(first - self.first..=last - self.first).unwrap_or_default()
    }

    /// Adds counts, bucket by bucket.
    pub fn add(&mut self, counts: &[u32; BUCKETS]) {
        let is_used = |count: &u32| *count > 0;
        let Some(first) = counts.iter().position(is_used) else { return };
        let Some(last) = counts.iter().rposition(is_used) else { return };
        let more = counts.get(first..=last).unwrap_or_default();
        for (sum, count) in self.range_mut(first, last).iter_mut().zip(more) {
            *sum += u64::from(*count);
        }
    }

    /// Adds one length.
    pub fn add_length(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        if let [sum] = self.range_mut(bucket, bucket) {
            *sum += 1;
        }
    }

    /// Adds another's counts.
    pub fn add_all(&mut self, other: &Histogram) {
        let Some(last) = other.counts.len().checked_sub(1) else { return };
        let sums = self.range_mut(other.first, other.first + last);
        for (sum, count) in sums.iter_mut().zip(&other.counts) {
            *sum += count;
        }
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.used().next().is_none()
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Memory that it takes beside itself, bytes.
    pub fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<u64>()
    }

    /// Each bucket in use: from and up to (exclusive; none: no end), ns, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = ((u64, Option<u64>), u64)> + '_ {
        self.used().map(|(bucket, count)| (bucket_bounds_ns(bucket), count))
    }

    /// Adds `count` lengths to the bucket that begins at `from_ns`: the way back from
    /// [`Self::buckets`]. False if none begins there or the count is larger than a window's can be.
    #[must_use]
    pub fn add_from(&mut self, from_ns: u64, count: u64) -> bool {
        const LARGEST: u64 = 1 << 40;
        let bucket = (0..BUCKETS).find(|bucket| bucket_bounds_ns(*bucket).0 == from_ns);
        match bucket.and_then(|bucket| self.range_mut(bucket, bucket).first_mut()) {
            Some(sum) if *sum + count.min(LARGEST) < LARGEST => {
                *sum += count;
                true
            }
            _ => false,
        }
    }

    /// A length such that `permille` of them are not longer, ns: the upper bound of the bucket that the
    /// one in question lies in, at most a quarter too long. None without any.
    pub fn quantile_ns(&self, permille: u64) -> Option<u64> {
        let [quantile] = self.quantiles_ns([permille]);
        quantile
    }

    /// Several of them, in ascending order: one pass.
    pub fn quantiles_ns<const N: usize>(&self, permille: [u64; N]) -> [Option<u64>; N] {
        quantiles_of(self.count(), self.used(), permille)
    }
}

/// The bucket that counts this length: see [`bucket_bounds_ns`].
fn bucket_of(ns: u64) -> usize {
    let octave = match ns {
        0..512 => return 0,
        512..0x2_0000_0000 => ns.ilog2() - 9,
        _ => return 97,
    };
    let part = (ns >> (octave + 7)) & 3;
    octave as usize * 4 + part as usize + 1
}

/// See [`Histogram::quantiles_ns`].
pub(crate) fn quantiles_ns<const N: usize>(
    counts: &[u32; BUCKETS],
    permille: [u64; N],
) -> [Option<u64>; N] {
    let all = counts.iter().map(|count| u64::from(*count)).sum();
    let counts = counts.iter().enumerate().filter(|(_, count)| **count > 0);
    quantiles_of(all, counts.map(|(bucket, count)| (bucket, u64::from(*count))), permille)
}

/// Of so many in all, in these buckets.
fn quantiles_of<const N: usize>(
    all: u64,
    mut used: impl Iterator<Item = (usize, u64)>,
    permille: [u64; N],
) -> [Option<u64>; N] {
    let (mut passed, mut bound) = (0, None);
    permille.map(|permille| {
        let wanted = (u128::from(all) * u128::from(permille)).div_ceil(1000).max(1);
        while passed < wanted {
            let (bucket, count) = used.next()?;
            passed += u128::from(count);
            let (from, to) = bucket_bounds_ns(bucket);
            // The last bucket has no end: that far is known.
            bound = Some(to.map_or(from, |to| to - 1));
        }
        bound
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "small random numbers")]
    use super::*;

    #[test]
    fn every_length_has_its_bucket() {
        let edges = (0..97).filter_map(|bucket| bucket_bounds_ns(bucket).1);
        let lengths = edges.flat_map(|edge| [edge - 1, edge, edge + 1]).chain([0, u64::MAX]);
        for ns in lengths {
            let (from, to) = bucket_bounds_ns(bucket_of(ns));
            assert!(from <= ns && to.is_none_or(|to| ns < to), "{ns}: {from} to {to:?}");
        }
        let mut histogram = Histogram::default();
        histogram.add_length(600);
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [((512, Some(640)), 1)]);
    }

    #[test]
    fn a_range_of_buckets_adds_up_as_all_of_them_do() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..300 {
            let (mut ranges, mut plain) = (Histogram::default(), [0_u64; BUCKETS]);
            for _ in 0..random(5) {
                let mut counts = [0_u32; BUCKETS];
                for _ in 0..random(6) {
                    counts[random(98) as usize] += random(3) as u32;
                }
                plain.iter_mut().zip(counts).for_each(|(sum, count)| *sum += u64::from(count));
                if random(2) == 0 {
                    ranges.add(&counts);
                } else {
                    let mut other = Histogram::default();
                    other.add(&counts);
                    ranges.add_all(&other);
                }
            }
            assert_eq!(ranges.count(), plain.iter().sum::<u64>());
            assert_eq!(ranges.is_empty(), plain.iter().all(|count| *count == 0));
            let used = plain.iter().enumerate().filter(|(_, count)| **count > 0);
            let used: Vec<_> = used.map(|(at, count)| (bucket_bounds_ns(at), *count)).collect();
            assert_eq!(ranges.buckets().collect::<Vec<_>>(), used);
            let narrow = plain.map(|count| count as u32);
            assert_eq!(
                ranges.quantiles_ns([500, 900, 1000]),
                quantiles_ns(&narrow, [500, 900, 1000])
            );
        }
    }

    #[test]
    fn quantiles_are_upper_bounds_of_their_buckets() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile_ns(500), None);
        let mut counts = [0; BUCKETS];
        (counts[0], counts[5], counts[97]) = (50, 49, 1);
        histogram.add(&counts);
        assert_eq!(histogram.quantile_ns(500), Some(511));
        assert_eq!(histogram.quantile_ns(510), Some(1279));
        assert_eq!(histogram.quantile_ns(990), Some(1279));
        assert_eq!(histogram.quantile_ns(1000), Some(1 << 33));
        let all = histogram.quantiles_ns([500, 510, 990, 1000]);
        assert_eq!(all, [Some(511), Some(1279), Some(1279), Some(1 << 33)]);
        // Nothing counted is nothing, however it came about.
        let mut zeros = Histogram::default();
        zeros.add(&[0; BUCKETS]);
        assert_eq!((zeros.quantile_ns(500), zeros), (None, Histogram::default()));
    }
}
