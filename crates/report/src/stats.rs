//! Exact order statistics.

/// Durations of one group, for exact quantiles.
///
/// The q-quantile is the *nearest rank*: the smallest recorded value that at least q of all values
/// do not exceed. It is always a value that occurred, never an interpolation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    sorted_ns: Vec<i64>,
}

impl Durations {
    /// Takes the durations of a group, in any order.
    pub(crate) fn new(mut durations_ns: Vec<i64>) -> Self {
        durations_ns.sort_unstable();
        Durations { sorted_ns: durations_ns }
    }

    /// The nearest-rank quantile `per_cent`/100; `None` for an empty group.
    pub(crate) fn quantile(&self, per_cent: u8) -> Option<i64> {
        self.quantile_of_1000(u16::from(per_cent) * 10)
    }

    /// The same in thousandths.
    pub(crate) fn quantile_of_1000(&self, per_mille: u16) -> Option<i64> {
        let rank = (self.sorted_ns.len() * usize::from(per_mille)).div_ceil(1000);
        self.sorted_ns.get(rank.max(1) - 1).copied()
    }

    /// The longest; `None` for an empty group.
    pub(crate) fn max(&self) -> Option<i64> {
        self.sorted_ns.last().copied()
    }

    /// The sum of the longest `count`.
    pub(crate) fn longest(&self, count: usize) -> i64 {
        self.sorted_ns.iter().rev().take(count).sum()
    }

    /// Their sum. A sum of intervals within one recording fits: it is at most the window times
    /// the CPUs, and broken stamps were refused before they became rows.
    pub(crate) fn total(&self) -> i64 {
        self.sorted_ns.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_nearest_rank() {
        let hundred = Durations::new((1..=100).rev().collect());
        assert_eq!(hundred.quantile(50), Some(50));
        assert_eq!(hundred.quantile(90), Some(90));
        assert_eq!(hundred.quantile(99), Some(99));
        assert_eq!(hundred.quantile_of_1000(999), Some(100));
        assert_eq!((hundred.longest(2), hundred.longest(0)), (199, 0));
        assert_eq!(hundred.max(), Some(100));
        assert_eq!(hundred.total(), 5050);
        let three = Durations::new(vec![7, 1, 3]);
        assert_eq!((three.quantile(50), three.quantile(99)), (Some(3), Some(7)));
        assert_eq!(three.quantile(0), Some(1));
    }

    #[test]
    fn an_empty_group_has_no_quantiles() {
        let none = Durations::default();
        assert_eq!((none.quantile(50), none.max(), none.total()), (None, None, 0));
    }
}
