//! Sums of spans of time.

/// How long spans last, all together, up to any moment.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// Starts and ends, each with the sum of all before it and itself.
    starts: Vec<(i64, i64)>,
    ends: Vec<(i64, i64)>,
}

impl Spans {
    pub(crate) fn new(spans: &[(i64, i64)]) -> Self {
        let summed = |mut all: Vec<i64>| -> Vec<(i64, i64)> {
            all.sort_unstable();
            let mut sum = 0_i64;
            let add = |t: i64| {
                sum = sum.wrapping_add(t);
                (t, sum)
            };
            all.into_iter().map(add).collect()
        };
        Spans {
            starts: summed(spans.iter().map(|span| span.0).collect()),
            ends: summed(spans.iter().map(|span| span.1).collect()),
        }
    }

    /// The sum of what lies before the moment.
    pub(crate) fn until(&self, t: i64) -> i64 {
        let before = |all: &[(i64, i64)]| {
            let count = all.partition_point(|(at, _)| *at < t);
            let sum = count.checked_sub(1).map_or(0, |last| all[last].1);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            t.wrapping_mul(count).wrapping_sub(sum)
        };
        before(&self.starts).wrapping_sub(before(&self.ends))
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
}
