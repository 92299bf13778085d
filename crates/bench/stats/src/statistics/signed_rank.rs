//! Wilcoxon's signed-rank test of paired differences, and the interval that belongs to it.
//!
//! F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1(6), 1945; the interval by J. Tukey's
//! counting of Walsh averages, M. Hollander, D. Wolfe, E. Chicken, *Nonparametric Statistical Methods*, 3rd ed., §3.
//!
//! # Ties and zeros
//! - The *test* is conditional on the ranks as they are: equal sizes share their rank, and all signs are counted
//!   through exactly ([`Method::Exact`] up to [`EXACT_UP_TO`] values, ties or not). Zeros either leave before the
//!   ranking ([`Zeros::Drop`], Wilcoxon's own) or after it ([`Zeros::Pratt`]: J. Pratt, JASA 54, 1959).
//! - The *interval* uses the distribution without ties and keeps zeros as what they are, values. With ties it is
//!   therefore conservative: it covers at least as often as it says.

use super::{
    Interval, Method, Test,
    hodges_lehmann::{kth_from_both_ends, walsh_averages},
    normal, quantile,
    ranks::{doubled_midranks, tie_term},
};

/// Up to so many values distributions are counted exactly: `2^n` and its parts fit into 128 bits.
pub const EXACT_UP_TO: usize = 120;

/// What becomes of differences that are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zeros {
    /// They leave before the ranking.
    Drop,
    /// They are ranked, and leave then: many zeros do not make the others look unanimous.
    Pratt,
}

/// What the test looks at.
struct Signed {
    /// Twice the rank of every difference that is not zero.
    ranks: Vec<usize>,
    /// Twice the sum of the ranks of the positive ones.
    positive: usize,
    /// Sizes of the groups that share a rank, zeros not included.
    ties: Vec<usize>,
    /// Values that were ranked, and zeros among them.
    ranked: usize,
    zeros: usize,
}

impl Signed {
    fn of(differences: &[f64], zeros: Zeros) -> Self {
        let ranked: Vec<f64> = differences
            .iter()
            .copied()
            .filter(|difference| zeros == Zeros::Pratt || *difference != 0.0)
            .collect();
        let sizes: Vec<f64> = ranked.iter().map(|difference| difference.abs()).collect();
        let (all, mut ties) = doubled_midranks(&sizes);
        let zeros = ranked.iter().filter(|difference| **difference == 0.0).count();
        if zeros > 1 {
            ties.remove(0); // The smallest size, hence the first group.
        }
        let kept = |is_kept: fn(f64) -> bool| {
            let pairs = ranked.iter().zip(&all);
            pairs.filter(move |(value, _)| is_kept(**value)).map(|(_, rank)| *rank)
        };
        Self {
            positive: kept(|value| value > 0.0).sum(),
            ranks: kept(|value| value != 0.0).collect(),
            ties,
            ranked: ranked.len(),
            zeros,
        }
    }

    fn statistic(&self) -> f64 {
        self.positive as f64 / 2.0
    }
}

/// Tests whether the differences are symmetric around 0. `None` if none is different from 0.
#[must_use]
pub fn test(differences: &[f64], zeros: Zeros) -> Option<Test> {
    let signed = Signed::of(differences, zeros);
    if signed.ranks.len() > EXACT_UP_TO {
        return Some(by_normal(&signed));
    }
    let total: usize = signed.ranks.iter().sum();
    let tail = signed.positive.min(total - signed.positive);
    let cases = ways(&signed.ranks, tail).iter().sum::<u128>();
    let p = (2.0 * share(cases, signed.ranks.len())).min(1.0);
    (total > 0).then_some(Test { statistic: signed.statistic(), p, method: Method::Exact })
}

/// The same by the normal approximation, whatever the size: with continuity correction and E. Cureton's for zeros
/// (JASA 62, 1967). `None` if no difference is different from 0.
#[must_use]
pub fn test_by_normal(differences: &[f64], zeros: Zeros) -> Option<Test> {
    let signed = Signed::of(differences, zeros);
    (!signed.ranks.is_empty()).then(|| by_normal(&signed))
}

fn by_normal(signed: &Signed) -> Test {
    let (n, zeros) = (signed.ranked as f64, signed.zeros as f64);
    let mean = (n * (n + 1.0) - zeros * (zeros + 1.0)) / 4.0;
    let cubes = |n: f64| n * (n + 1.0) * (2.0 * n + 1.0);
    let variance = (cubes(n) - cubes(zeros) - tie_term(&signed.ties) / 2.0) / 24.0;
    let distance = ((signed.statistic() - mean).abs() - 0.5).max(0.0);
    let p = 2.0 * normal::sf(distance / variance.sqrt());
    Test { statistic: signed.statistic(), p: p.min(1.0), method: Method::Normal }
}

/// The smallest `p` that so many differences can have: all of them of one sign.
#[must_use]
pub fn least_p(n: usize) -> f64 {
    // More of them can have any.
    if n > EXACT_UP_TO { 0.0 } else { (2.0 * share(1, n)).min(1.0) }
}

/// The interval of the differences' centre. `None` if there are too few values for such confidence: below 6 for 95 %,
/// below 7 for 97 %.
#[must_use]
pub fn interval(differences: &[f64], confidence: f64) -> Option<Interval> {
    let (k, outside) = critical(differences.len(), (1.0 - confidence) / 2.0)?;
    let (low, high) = kth_from_both_ends(&mut walsh_averages(differences), k)?;
    Some(Interval { low, high, asked: confidence, achieved: 1.0 - 2.0 * outside })
}

/// The largest `k` with `P(W+ ≤ k − 1) ≤ tail`, and that probability: the interval's ends are the `k`th Walsh average
/// from below and from above. `None` if there is none.
fn critical(n: usize, tail: f64) -> Option<(usize, f64)> {
    if n > EXACT_UP_TO {
        return critical_by_normal(n, tail);
    }
    let ranks: Vec<usize> = (1..=n).map(|rank| 2 * rank).collect();
    let (mut sum, mut found) = (0, None);
    for (at, cases) in ways(&ranks, n * (n + 1) / 2).into_iter().enumerate() {
        sum += cases;
        let probability = share(sum, n);
        if probability > tail {
            break;
        }
        found = Some((at + 1, probability));
    }
    found
}

fn critical_by_normal(n: usize, tail: f64) -> Option<(usize, f64)> {
    let n = n as f64;
    let mean = n * (n + 1.0) / 4.0;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    let k = quantile::floor((mean + deviation * normal::ppf(tail) + 0.5).max(0.0));
    (k > 0).then(|| (k, normal::cdf((k as f64 - 0.5 - mean) / deviation)))
}

/// In how many ways signs can be given so that twice the positive ranks' sum is 0, 1, … `most`; if all doubled ranks
/// are even (no ties), in steps of 2.
fn ways(doubled_ranks: &[usize], most: usize) -> Vec<u128> {
    let step = if doubled_ranks.iter().all(|rank| rank.is_multiple_of(2)) { 2 } else { 1 };
    let mut ways = vec![0_u128; most / step + 1];
    ways[0] = 1;
    let mut reached = 0;
    for rank in doubled_ranks.iter().map(|rank| rank / step) {
        reached = (reached + rank).min(ways.len() - 1);
        for sum in (rank..=reached).rev() {
            ways[sum] += ways[sum - rank];
        }
    }
    ways
}

/// `cases` of `2^n`.
fn share(cases: u128, n: usize) -> f64 {
    cases as f64 / (1_u128 << n) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_values_of_the_tables() {
        // Hollander & Wolfe, table A.4; two-sided 5 %: W+ ≤ 0, 2, 3, 5, 8, …
        let k = |n| critical(n, 0.025).map(|(k, _)| k);
        assert_eq!(
            [5, 6, 7, 8, 9, 10, 20, 25].map(k),
            [None, Some(1), Some(3), Some(4), Some(6), Some(9), Some(53), Some(90)]
        );
    }

    #[test]
    fn few_values_have_no_interval() {
        let values: Vec<f64> = (1..=6).map(f64::from).collect();
        assert_eq!(interval(&values[..5], 0.95), None);
        let six = interval(&values, 0.95).unwrap();
        assert_eq!((six.low, six.high, six.achieved), (1.0, 6.0, 1.0 - 2.0 / 64.0));
        assert_eq!(interval(&values, 0.97), None);
        assert_eq!(interval(&[], 0.95), None);
    }

    #[test]
    fn no_test_gives_less_than_the_least() {
        let same: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(test(&same, Zeros::Drop).unwrap().p, least_p(10));
        assert_eq!((least_p(0), least_p(1), least_p(2)), (1.0, 1.0, 0.5));
        assert_eq!(least_p(EXACT_UP_TO + 1), 0.0);
    }

    #[test]
    fn nothing_but_zeros_says_nothing() {
        assert_eq!(test(&[0.0; 9], Zeros::Drop), None);
        assert_eq!(test(&[0.0; 9], Zeros::Pratt), None);
        assert_eq!(test_by_normal(&[0.0; 9], Zeros::Pratt), None);
    }

    #[test]
    fn exact_and_normal_meet_where_one_ends() {
        let (exact, outside) = critical(EXACT_UP_TO, 0.025).unwrap();
        let (normal, about) = critical_by_normal(EXACT_UP_TO, 0.025).unwrap();
        assert!(normal.abs_diff(exact) <= 3, "{normal}, {exact}");
        assert!((outside - about).abs() < 1e-3, "{outside}, {about}");
        let long: Vec<f64> = (0..200).map(|at| f64::from(at) - 70.0 + 0.1).collect();
        let interval = interval(&long, 0.95).unwrap();
        assert!(interval.low < 29.6 && interval.high > 29.6, "{interval:?}");
    }

    #[test]
    fn ties_are_counted_through() {
        // Sizes 1, 1, 2: ranks 1.5, 1.5, 3. All positive: one case of eight, two-sided a quarter.
        let test = test(&[1.0, 1.0, 2.0], Zeros::Drop).unwrap();
        assert_eq!((test.statistic, test.p, test.method), (6.0, 0.25, Method::Exact));
    }
}
