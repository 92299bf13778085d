//! All values of a group, for quantiles that are values that occurred.

use super::values::{Values, rank};

/// Values in the order they came. Those from 0 to 2³² − 1 (4.3 s in ns), nearly all, take half
/// the memory.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    narrow: Vec<u32>,
    /// The negative ones and the large ones.
    wide: Vec<i64>,
}

impl Values for Exact {
    #[inline]
    fn add(&mut self, value: i64) {
        match u32::try_from(value) {
            Ok(value) => self.narrow.push(value),
            Err(_) => self.wide.push(value),
        }
    }

    /// How many narrow values follow, those, then the wide ones.
    fn encode(&self, out: &mut Vec<u8>) {
        out.reserve(8 + self.narrow.len() * 4 + self.wide.len() * 8);
        out.extend((self.narrow.len() as u64).to_le_bytes());
        out.extend(self.narrow.iter().flat_map(|value| value.to_le_bytes()));
        out.extend(self.wide.iter().flat_map(|value| value.to_le_bytes()));
    }

    fn merge(&mut self, state: &[u8]) {
        let Some((count, values)) = state.split_first_chunk() else { return };
        let count = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let Some((narrow, wide)) = values.split_at_checked(count.saturating_mul(4)) else { return };
        self.narrow.extend(narrow.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)));
        self.wide.extend(wide.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)));
    }

    /// In order there are the negative wide values, the narrow ones, the large wide ones.
    fn quantile(&mut self, q: f64) -> Option<i64> {
        let count = self.narrow.len() + self.wide.len();
        if count == 0 {
            return None;
        }
        let at = rank(count, q) - 1;
        let negative = self.wide.iter().filter(|value| **value < 0).count();
        if at < negative {
            return Some(*self.wide.select_nth_unstable(at).1);
        }
        if at - negative < self.narrow.len() {
            return Some(i64::from(*self.narrow.select_nth_unstable(at - negative).1));
        }
        Some(*self.wide.select_nth_unstable(at - self.narrow.len()).1)
    }

    fn size_bytes(&self) -> usize {
        size_of::<Self>() + self.narrow.capacity() * 4 + self.wide.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::cases;

    #[test]
    #[allow(clippy::cast_precision_loss)]
    fn two_merged_halves_give_the_value_of_nearest_rank() {
        cases(500, |random| {
            let mut values: Vec<i64> = random.list(100, |r| r.wide());
            values.push(random.int(-5..5));
            let (mut first, mut second) = (Exact::default(), Exact::default());
            for value in &values {
                if random.once_in(2) { first.add(*value) } else { second.add(*value) }
            }
            let mut state = Vec::new();
            second.encode(&mut state);
            first.merge(&state);
            let q = random.int(0..101) as f64 / 100.0;
            values.sort_unstable();
            let wanted = (q * values.len() as f64).ceil().max(1.0);
            let not_above = |v: i64| values.iter().filter(|s| **s <= v).count() as f64;
            let expected = *values.iter().find(|v| not_above(**v) >= wanted).unwrap();
            assert_eq!(first.quantile(q), Some(expected), "{q} of {values:?}");
        });
    }
}
