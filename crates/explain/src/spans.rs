//! Sums of spans of time.

use crate::places::{Places, count, count_near};

/// How long spans last, all together, up to any moment: a sum that grows evenly from each moment at which one begins or ends to
/// the next.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    bends: Vec<Bend>,
    places: Places,
}

/// The sum of what lies before a moment.
#[derive(Clone, Copy, Debug)]
struct Bend {
    t: i64,
    sum: i64,
}

impl Spans {
    pub(crate) fn new(spans: &[(i64, i64)]) -> Self {
        let mut edges: Vec<(i64, i64)> =
            spans.iter().flat_map(|(from, to)| [(*from, 1), (*to, -1)]).collect();
        edges.sort_unstable();
        let mut bends: Vec<Bend> = Vec::new();
        let mut open = 0_i64;
        for (t, by) in edges {
            match bends.last() {
                Some(last) if last.t == t => {}
                last => {
                    let since = last.copied().unwrap_or(Bend { t, sum: 0 });
                    let grown = open.wrapping_mul(t.wrapping_sub(since.t));
                    bends.push(Bend { t, sum: since.sum.wrapping_add(grown) });
                }
            }
            open += by;
        }
        bends.shrink_to_fit();
        let places = Places::new(&bends, |bend| bend.t);
        Spans { bends, places }
    }

    /// The sum of what lies before the moment.
    pub(crate) fn until(&self, t: i64) -> i64 {
        self.sum(self.before(t), t)
    }

    /// How many bends lie before the moment.
    fn before(&self, t: i64) -> usize {
        count(&self.bends, self.places.around(t), |bend| bend.t < t)
    }

    /// The sum of what lies before the moment, before which so many bends lie.
    fn sum(&self, before: usize, t: i64) -> i64 {
        let (last, next) = (before.checked_sub(1), self.bends.get(before));
        let Some(last) = last.map(|at| self.bends[at]) else { return 0 };
        let Some(next) = next else { return last.sum };
        let open = next.sum.wrapping_sub(last.sum).wrapping_div(next.t.wrapping_sub(last.t));
        last.sum.wrapping_add(open.wrapping_mul(t.wrapping_sub(last.t)))
    }

    /// How much of the time from `from` to `to` they take together.
    pub(crate) fn within(&self, from: i64, to: i64) -> i64 {
        let mut near = self.bends.len();
        self.within_near(from, to, &mut near)
    }

    /// The same for who asks for one time after another, back: `near` is where the last one begins.
    pub(crate) fn within_near(&self, from: i64, to: i64, near: &mut usize) -> i64 {
        let before_to =
            count_near(&self.bends, *near, |bend| bend.t < to).unwrap_or_else(|| self.before(to));
        // Most often both are close to each other.
        let before_from = count_near(&self.bends, before_to, |bend| bend.t < from)
            .unwrap_or_else(|| self.before(from));
        *near = before_from;
        self.sum(before_to, to).wrapping_sub(self.sum(before_from, from))
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
    fn spans_at_the_ends_of_time_are_no_failure() {
        let ends = [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN), (-1, i64::MAX), (0, 0)];
        let used = Spans::new(&ends);
        for t in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
            let _ = used.until(t);
        }
    }

    #[test]
    fn many_spans_are_summed_up() {
        for many in [63, 64, 65, 128, 200] {
            let spans: Vec<(i64, i64)> = (0..many).map(|n| (n * 10, n * 10 + 4)).collect();
            let (used, mut near) = (Spans::new(&spans), usize::MAX);
            for t in 0..many * 10 + 5 {
                let sum: i64 = spans.iter().map(|(from, to)| (t.min(*to) - from).max(0)).sum();
                assert_eq!(used.until(t), sum, "{many} spans up to {t}");
                for from in [0, t - 1, t - 7, t - 38, t - 41, t - 45, t - 300, t + 20] {
                    let within = sum - used.until(from);
                    assert_eq!(used.within(from, t), within, "{many} spans from {from} to {t}");
                    let near = used.within_near(from, t, &mut near);
                    assert_eq!(near, within, "{many} spans from {from} to {t}");
                }
            }
        }
    }
}
