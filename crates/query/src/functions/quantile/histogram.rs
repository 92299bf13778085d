//! Counts of values in buckets whose width grows with the value: quantiles to within 0.4 % in a
//! few KiB a group, however many values there are.
//!
//! Every power of two is divided into 128 buckets; values below 128 have a bucket each. A quantile
//! is given as the middle of its bucket, at most half a bucket (1/256) from the value that the
//! exact quantile would name. Only the buckets between the lowest and the highest used are kept.

use super::values::{Values, rank};

/// Buckets and where they begin.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    first: i32,
    counts: Vec<u64>,
    total: u64,
}

const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// The bucket of a value; negative ones mirror the positive ones.
#[inline]
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // At most 64 · 128.
fn bucket(value: i64) -> i32 {
    let size = value.unsigned_abs();
    let at = if size < SUB {
        size as i32
    } else {
        let shift = 63 - size.leading_zeros() - SUB_BITS;
        ((u64::from(shift) << SUB_BITS) + (size >> shift)) as i32
    };
    if value < 0 { -at } else { at }
}

/// The middle of a bucket.
fn middle(bucket: i32) -> i64 {
    let at = u64::from(bucket.unsigned_abs());
    let size = if at < SUB {
        at
    } else {
        let shift = (at >> SUB_BITS) - 1;
        let low = (at - (shift << SUB_BITS)) << shift;
        low + ((1 << shift) >> 1)
    };
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    if bucket < 0 { -size } else { size }
}

impl Histogram {
    /// Makes room for buckets `low..=high`.
    #[cold]
    #[allow(clippy::cast_sign_loss)] // Differences of ordered buckets.
    fn cover(&mut self, low: i32, high: i32) {
        if self.counts.is_empty() {
            self.first = low;
        }
        if low < self.first {
            let more = (self.first - low) as usize;
            self.counts.splice(0..0, std::iter::repeat_n(0, more));
            self.first = low;
        }
        let len = (high - self.first) as usize + 1;
        if len > self.counts.len() {
            self.counts.resize(len, 0);
        }
    }

    fn add_many(&mut self, bucket: i32, count: u64) {
        loop {
            let at = usize::try_from(bucket.wrapping_sub(self.first));
            if let Some(found) = at.ok().and_then(|at| self.counts.get_mut(at)) {
                *found += count;
                self.total += count;
                return;
            }
            self.cover(bucket, bucket);
        }
    }
}

impl Values for Histogram {
    #[inline]
    fn add(&mut self, value: i64) {
        self.add_many(bucket(value), 1);
    }

    /// The first bucket, then the counts as variable-length numbers: most are small.
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.first.to_le_bytes());
        for count in &self.counts {
            let mut rest = *count;
            while rest >= 0x80 {
                out.push((rest & 0x7f) as u8 | 0x80);
                rest >>= 7;
            }
            out.push((rest & 0x7f) as u8);
        }
    }

    fn merge(&mut self, state: &[u8]) {
        let Some((first, bytes)) = state.split_first_chunk() else { return };
        let mut bucket = i32::from_le_bytes(*first);
        let (mut count, mut shift) = (0, 0);
        for byte in bytes {
            count |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 != 0 {
                shift += 7;
                continue;
            }
            if count > 0 {
                self.add_many(bucket, count);
            }
            (count, shift, bucket) = (0, 0, bucket + 1);
        }
    }

    fn quantile(&mut self, q: f64) -> Option<i64> {
        let total = usize::try_from(self.total).ok().filter(|total| *total > 0)?;
        let mut left = rank(total, q) as u64;
        for (bucket, count) in (self.first..).zip(&self.counts) {
            if *count >= left {
                return Some(middle(bucket));
            }
            left -= count;
        }
        None
    }

    fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.counts.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::cases;

    #[test]
    fn a_buckets_middle_is_near_every_value_in_it() {
        cases(5000, |random| {
            let value = random.wide();
            let near = middle(bucket(value));
            let off = (i128::from(near) - i128::from(value)).unsigned_abs();
            assert!(off * 256 <= u128::from(value.unsigned_abs()), "{value} as {near}");
        });
    }

    #[test]
    fn larger_values_are_in_no_lower_buckets() {
        cases(5000, |random| {
            let (a, b) = (random.wide(), random.wide());
            assert!(bucket(a.min(b)) <= bucket(a.max(b)), "{a} and {b}");
        });
    }

    #[test]
    fn merged_histograms_give_what_one_gives() {
        cases(200, |random| {
            let (mut all, mut first, mut second) =
                (Histogram::default(), Histogram::default(), Histogram::default());
            for value in random.list(300, |r| r.wide()) {
                all.add(value);
                if random.once_in(2) { first.add(value) } else { second.add(value) }
            }
            let mut state = Vec::new();
            second.encode(&mut state);
            first.merge(&state);
            for q in [0.0, 0.1, 0.5, 0.99, 1.0] {
                assert_eq!(first.quantile(q), all.quantile(q));
            }
        });
    }
}
