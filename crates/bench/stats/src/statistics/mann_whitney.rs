//! The Mann–Whitney test of two samples, and the interval of the shift between them.
//!
//! H. Mann, D. Whitney, "On a test of whether one of two random variables is stochastically larger than the other",
//! Annals of Mathematical Statistics 18(1), 1947; the interval by P. Moses, see Hollander & Wolfe, §4.
//!
//! # Ties
//! Without equal values `p` is exact up to [`EXACT_UP_TO`] values in both samples together; with them, or beyond, the
//! normal approximation with corrections for ties and continuity. The interval uses the distribution without ties, and
//! is conservative with them.

use super::{
    Interval, Method, Test,
    hodges_lehmann::{differences, kth_from_both_ends},
    normal, quantile,
    ranks::{doubled_midranks, tie_term},
};

/// Up to so many values in both samples together distributions are counted exactly: the number of all orders,
/// `C(n + m, n)`, fits into 128 bits.
pub const EXACT_UP_TO: usize = 120;

/// Tests whether the second sample tends to lie above or below the first. The statistic is the number of pairs in
/// which it lies above, equal ones counted half. `None` if one is empty.
#[must_use]
pub fn test(first: &[f64], second: &[f64]) -> Option<Test> {
    let (above, ties) = count(first, second)?;
    let (n, m) = (first.len(), second.len());
    if !ties.is_empty() || n + m > EXACT_UP_TO {
        return Some(by_normal(above, &ties, n, m));
    }
    let tail = quantile::floor(above.min((n * m) as f64 - above));
    let cases = ways(n, m, tail).iter().sum::<u128>();
    let p = (2.0 * cases as f64 / orders(n, m) as f64).min(1.0);
    Some(Test { statistic: above, p, method: Method::Exact })
}

/// The same by the normal approximation, whatever the size.
#[must_use]
pub fn test_by_normal(first: &[f64], second: &[f64]) -> Option<Test> {
    let (above, ties) = count(first, second)?;
    Some(by_normal(above, &ties, first.len(), second.len()))
}

/// How often the second lies above the first, and the sizes of the groups of equal values.
fn count(first: &[f64], second: &[f64]) -> Option<(f64, Vec<usize>)> {
    if first.is_empty() || second.is_empty() {
        return None;
    }
    let together: Vec<f64> = first.iter().chain(second).copied().collect();
    let (ranks, ties) = doubled_midranks(&together);
    let sum: usize = ranks[first.len()..].iter().sum();
    let least = second.len() * (second.len() + 1);
    Some(((sum - least) as f64 / 2.0, ties))
}

fn by_normal(above: f64, ties: &[usize], n: usize, m: usize) -> Test {
    let (n, m) = (n as f64, m as f64);
    let all = n + m;
    let mean = n * m / 2.0;
    let shrunk = if all > 1.0 { tie_term(ties) / (all * (all - 1.0)) } else { 0.0 };
    let deviation = (n * m / 12.0 * (all + 1.0 - shrunk)).sqrt();
    let distance = (above - mean).abs() - 0.5;
    // Where all values are equal there is no deviation, and nothing to be found.
    let p = if deviation > 0.0 { 2.0 * normal::sf(distance / deviation) } else { 1.0 };
    Test { statistic: above, p: p.min(1.0), method: Method::Normal }
}

/// The smallest `p` that samples of these sizes can have: all of the one below all of the other.
#[must_use]
pub fn least_p(n: usize, m: usize) -> f64 {
    // Larger samples can have any.
    if n + m > EXACT_UP_TO { 0.0 } else { (2.0 / orders(n, m) as f64).min(1.0) }
}

/// The interval of the shift `second − first`. `None` if there are too few values for such confidence.
#[must_use]
pub fn interval(first: &[f64], second: &[f64], confidence: f64) -> Option<Interval> {
    let (k, outside) = critical(first.len(), second.len(), (1.0 - confidence) / 2.0)?;
    let (low, high) = kth_from_both_ends(&mut differences(first, second), k)?;
    Some(Interval { low, high, asked: confidence, achieved: 1.0 - 2.0 * outside })
}

/// The largest `k` with `P(U ≤ k − 1) ≤ tail`, and that probability.
fn critical(n: usize, m: usize, tail: f64) -> Option<(usize, f64)> {
    if n == 0 || m == 0 {
        return None;
    }
    if n + m > EXACT_UP_TO {
        return critical_by_normal(n as f64, m as f64, tail);
    }
    let orders = orders(n, m) as f64;
    let (mut sum, mut found) = (0, None);
    for (at, cases) in ways(n, m, n * m / 2).into_iter().enumerate() {
        sum += cases;
        let probability = sum as f64 / orders;
        if probability > tail {
            break;
        }
        found = Some((at + 1, probability));
    }
    found
}

fn critical_by_normal(n: f64, m: f64, tail: f64) -> Option<(usize, f64)> {
    let mean = n * m / 2.0;
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    let k = quantile::floor((mean + deviation * normal::ppf(tail) + 0.5).max(0.0));
    (k > 0).then(|| (k, normal::cdf((k as f64 - 0.5 - mean) / deviation)))
}

/// How many orders of two samples there are: `C(n + m, n)`.
fn orders(n: usize, m: usize) -> u128 {
    (1..=n as u128).fold(1, |orders, at| orders * (m as u128 + at) / at)
}

/// In how many orders `U` is 0, 1, … `most`: the coefficients of the Gaussian binomial `Π (1 − q^(m+i)) / (1 − q^i)`.
///
/// In arithmetic modulo 2^128: on the way coefficients may leave the range, but every step has an inverse there, and
/// the last ones are within it.
fn ways(n: usize, m: usize, most: usize) -> Vec<u128> {
    let mut ways = vec![0_u128; most + 1];
    ways[0] = 1;
    for at in 1..=n {
        for sum in (m + at..=most).rev() {
            ways[sum] = ways[sum].wrapping_sub(ways[sum - m - at]);
        }
        for sum in at..=most {
            ways[sum] = ways[sum].wrapping_add(ways[sum - at]);
        }
    }
    ways
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_are_counted() {
        for (n, m) in [(1, 1), (3, 4), (8, 2), (20, 20), (60, 60), (5, 115)] {
            assert_eq!(ways(n, m, n * m).iter().sum::<u128>(), orders(n, m), "{n}, {m}");
        }
    }

    #[test]
    fn by_hand() {
        // 1 2 | 3 4: of six orders one has U = 4 and one U = 0.
        let test = test(&[1.0, 2.0], &[3.0, 4.0]).unwrap();
        assert_eq!((test.statistic, test.p, test.method), (4.0, 1.0 / 3.0, Method::Exact));
        assert_eq!((least_p(2, 2), least_p(60, 61)), (1.0 / 3.0, 0.0));
        assert_eq!(interval(&[1.0, 2.0], &[3.0, 4.0], 0.95), None);
        let short = interval(&[1.0, 2.0], &[3.0, 4.0], 0.6).unwrap();
        assert_eq!((short.low, short.high), (1.0, 3.0));
    }

    #[test]
    fn nothing_to_be_found_in_equal_values() {
        assert_eq!(test(&[1.0; 5], &[1.0; 7]).map(|test| test.p), Some(1.0));
        assert_eq!(test(&[], &[1.0]), None);
        assert_eq!(interval(&[], &[1.0], 0.5), None);
    }
}
