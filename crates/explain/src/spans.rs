//! Sums of spans of time.

use crate::places::{Places, count};

/// Moments of which one sum is kept: a sum up to any other adds less than so many to one of these.
const MOMENTS_PER_SUM: usize = 16;

/// How long spans last, all together, up to any moment.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    starts: Moments,
    ends: Moments,
}

#[derive(Debug, Default)]
struct Moments {
    /// In order.
    all: Vec<i64>,
    /// The sum of all before each first of so many.
    sums: Vec<i64>,
    places: Places,
}

impl Moments {
    fn new(mut all: Vec<i64>) -> Self {
        all.sort_unstable();
        let mut sum = 0_i64;
        let sums = all.chunks(MOMENTS_PER_SUM).map(|chunk| {
            let before = sum;
            sum = chunk.iter().fold(sum, |sum, t| sum.wrapping_add(*t));
            before
        });
        let sums = sums.collect();
        let places = Places::new(&all, |at| *at);
        Moments { all, sums, places }
    }

    /// How long it is from each of them that lies before the moment, all together.
    fn until(&self, t: i64) -> i64 {
        let count = count(&self.all, self.places.around(t), |at| *at < t);
        // The sum before the last of them, and what is behind that.
        let chunk = count.saturating_sub(1) / MOMENTS_PER_SUM;
        let before = self.sums.get(chunk).copied().unwrap_or(0);
        let rest = &self.all[chunk * MOMENTS_PER_SUM..count];
        let sum = rest.iter().fold(before, |sum, at| sum.wrapping_add(*at));
        t.wrapping_mul(i64::try_from(count).unwrap_or(i64::MAX)).wrapping_sub(sum)
    }
}

impl Spans {
    pub(crate) fn new(spans: &[(i64, i64)]) -> Self {
        Spans {
            starts: Moments::new(spans.iter().map(|span| span.0).collect()),
            ends: Moments::new(spans.iter().map(|span| span.1).collect()),
        }
    }

    /// The sum of what lies before the moment.
    pub(crate) fn until(&self, t: i64) -> i64 {
        self.starts.until(t).wrapping_sub(self.ends.until(t))
    }

    /// How much of the time from `from` to `to` they take together.
    pub(crate) fn within(&self, from: i64, to: i64) -> i64 {
        self.until(to).wrapping_sub(self.until(from))
    }
}

#[cfg(test)]
mod tests {
    use super::Spans;

    #[test]
    fn spans_are_summed_up() {
        let used = Spans::new(&[(10, 20), (15, 30), (40, 50)]);
        for (t, sum) in [(0, 0), (10, 0), (12, 2), (15, 5), (20, 15), (25, 20), (45, 30), (99, 35)]
        {
            assert_eq!(used.until(t), sum, "{t}");
        }
    }

    #[test]
    fn many_spans_are_summed_up() {
        for many in [63, 64, 65, 128, 200] {
            let spans: Vec<(i64, i64)> = (0..many).map(|n| (n * 10, n * 10 + 4)).collect();
            let used = Spans::new(&spans);
            for t in 0..many * 10 + 5 {
                let sum: i64 = spans.iter().map(|(from, to)| (t.min(*to) - from).max(0)).sum();
                assert_eq!(used.until(t), sum, "{many} spans up to {t}");
            }
        }
    }
}
