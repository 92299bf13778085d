//! How far the result follows the resource.

use serde::{Deserialize, Serialize};
use transect_bench_core::Better;

/// d log(result) / d log(resource): 1 if the result is proportional to the resource, 0 if it does not care.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elasticity {
    /// Estimate: Hodges–Lehmann shift of the logarithms over log of the factor.
    pub value: f64,
    /// Its interval, at least 95 %, from the order statistics of all differences (inverted Mann–Whitney test); `None`
    /// below what 95 % needs: 4 runs with 4, 3 with 5, 2 with 8.
    pub interval: Option<(f64, f64)>,
    /// Runs without and with the perturbation.
    pub runs: (usize, usize),
    /// What follows.
    pub verdict: Verdict,
}

/// Whether the suspect was the limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The whole interval is at least [`Elasticity::CONFIRMED`].
    Confirmed,
    /// The whole interval is below it.
    Refuted,
    /// Neither, or there is no interval.
    Undecided,
}

impl Elasticity {
    /// By Amdahl's law a resource that is needed for the share `s` of the time has, when halved, an elasticity of
    /// log2(1 + s): 0.5 is s = 41 %. Below it, something else holds the run for longer than this does.
    pub const CONFIRMED: f64 = 0.5;
}

/// Elasticity of results `before` and `after` a resource was multiplied by `factor` (0 to 1, exclusive).
///
/// Times are turned into rates by `better`. `None` if a result is not positive and finite, if there is none, or if the
/// factor is out of range.
#[must_use]
pub fn elasticity(
    before: &[f64],
    after: &[f64],
    better: Better,
    factor: f64,
) -> Option<Elasticity> {
    if before.is_empty() || after.is_empty() || !(factor > 0.0 && factor < 1.0) {
        return None;
    }
    let sign = match better {
        Better::More => 1.0,
        Better::Less => -1.0,
    };
    let logs = |results: &[f64]| -> Option<Vec<f64>> {
        let log = |result: &f64| (*result > 0.0 && result.is_finite()).then(|| sign * result.ln());
        results.iter().map(log).collect()
    };
    let (before, after) = (logs(before)?, logs(after)?);
    let scale = factor.ln();
    let mut ratios: Vec<f64> = after
        .iter()
        .flat_map(|after| before.iter().map(move |before| (after - before) / scale))
        .collect();
    ratios.sort_by(f64::total_cmp);
    let value = median(&ratios)?;
    let interval = cut(before.len(), after.len()).and_then(|cut| {
        let low = ratios.get(cut)?;
        let high = ratios.get(ratios.len().checked_sub(cut + 1)?)?;
        Some((*low, *high))
    });
    let verdict = match interval {
        Some((low, _)) if low >= Elasticity::CONFIRMED => Verdict::Confirmed,
        Some((_, high)) if high < Elasticity::CONFIRMED => Verdict::Refuted,
        _ => Verdict::Undecided,
    };
    Some(Elasticity { value, interval, runs: (before.len(), after.len()), verdict })
}

fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    let lower =
        sorted.get(if sorted.len().is_multiple_of(2) { middle.checked_sub(1)? } else { middle })?;
    Some(f64::midpoint(*lower, *upper))
}

/// How many differences to leave out at each end for 95 %: the largest c with P(U ≤ c) ≤ 2.5 %.
/// `None` if even the full range has less.
fn cut(m: usize, n: usize) -> Option<usize> {
    // Beyond this the range of the counts is, by far, decided; more runs than this are not made for a confirmation.
    if m > 60 || n > 60 {
        return cut(m.min(60), n.min(60));
    }
    let counts = mann_whitney(m, n);
    let all: f64 = counts.iter().sum();
    let mut below = 0.0;
    let mut cut = None;
    for (u, count) in counts.iter().enumerate() {
        below += count;
        if below / all > 0.025 {
            break;
        }
        cut = Some(u);
    }
    cut
}

/// In how many of the arrangements of `m` and `n` values the statistic U is 0, 1, … m·n: coefficients of the Gaussian
/// binomial.
fn mann_whitney(m: usize, n: usize) -> Vec<f64> {
    let mut counts = vec![0.0; m * n + 1];
    if let Some(first) = counts.first_mut() {
        *first = 1.0;
    }
    for i in 1..=m {
        // Times (1 - q^(n+i)) / (1 - q^i), on a truncated polynomial.
        for u in (n + i..counts.len()).rev() {
            let lower = counts.get(u - n - i).copied().unwrap_or(0.0);
            if let Some(count) = counts.get_mut(u) {
                *count -= lower;
            }
        }
        for u in i..counts.len() {
            let lower = counts.get(u - i).copied().unwrap_or(0.0);
            if let Some(count) = counts.get_mut(u) {
                *count += lower;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn counts_are_those_of_enumeration() {
        // m = n = 2: U of {1,2} against {3,4} … : 1, 1, 2, 1, 1.
        assert_eq!(mann_whitney(2, 2), [1.0, 1.0, 2.0, 1.0, 1.0]);
        let all: f64 = mann_whitney(5, 7).iter().sum();
        assert!((all - 792.0).abs() < 1e-9);
    }

    #[test]
    fn tables_of_critical_values_agree() {
        // Two-sided 5 % critical values of U (Milton 1964): the cut leaves out that many differences at each end.
        assert_eq!(cut(3, 4), None);
        assert_eq!(cut(4, 4), Some(0));
        assert_eq!(cut(3, 5), Some(0));
        assert_eq!(cut(2, 8), Some(0));
        assert_eq!(cut(5, 5), Some(2));
        assert_eq!(cut(8, 8), Some(13));
        assert_eq!(cut(10, 10), Some(23));
    }

    #[test]
    fn proportional_is_confirmed_and_indifferent_refuted() {
        let before = [100.0, 101.0, 99.0, 100.5];
        let half = [50.0, 50.2, 49.7, 50.4];
        let found = elasticity(&before, &half, Better::More, 0.5).unwrap();
        assert!((found.value - 1.0).abs() < 0.05, "{found:?}");
        assert_eq!(found.verdict, Verdict::Confirmed);
        let same = [100.2, 99.5, 100.9, 99.9];
        let found = elasticity(&before, &same, Better::More, 0.5).unwrap();
        assert_eq!(found.verdict, Verdict::Refuted, "{found:?}");
        // A time that doubles is a rate that halves.
        let times = [1.0, 1.01, 0.99, 1.0];
        let doubled = [2.0, 2.02, 1.98, 2.01];
        let found = elasticity(&times, &doubled, Better::Less, 0.5).unwrap();
        assert_eq!(found.verdict, Verdict::Confirmed, "{found:?}");
    }

    #[test]
    fn few_runs_decide_nothing() {
        let found = elasticity(&[100.0; 3], &[50.0; 3], Better::More, 0.5).unwrap();
        assert_eq!((found.interval, found.verdict), (None, Verdict::Undecided));
        assert_eq!(elasticity(&[], &[1.0], Better::More, 0.5), None);
        assert_eq!(elasticity(&[0.0], &[1.0], Better::More, 0.5), None);
        assert_eq!(elasticity(&[1.0], &[1.0], Better::More, 1.0), None);
    }

    proptest! {
        #[test]
        fn the_value_is_in_its_interval(
            before in proptest::collection::vec(0.1_f64..10.0, 1..12),
            after in proptest::collection::vec(0.1_f64..10.0, 1..12),
        ) {
            let found = elasticity(&before, &after, Better::More, 0.5).unwrap();
            if let Some((low, high)) = found.interval {
                prop_assert!(low <= found.value && found.value <= high);
            }
        }
    }
}
