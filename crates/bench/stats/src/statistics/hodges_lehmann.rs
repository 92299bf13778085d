//! Hodges–Lehmann estimates: J. Hodges, E. Lehmann, "Estimates of location based on rank tests", Annals of
//! Mathematical Statistics 34(2), 1963.
//!
//! Nearly as efficient as the mean where values are normal (95.5 %), and unmoved by a few wild ones (up to 29 %).

use super::quantile::median_in_place;

/// All `n(n+1)/2` averages of two values, each value with itself included, in no order.
#[must_use]
pub fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (at, first) in values.iter().enumerate() {
        averages.extend(values[at..].iter().map(|second| (first + second) / 2.0));
    }
    averages
}

/// All `n·m` differences `second − first`, in no order.
#[must_use]
pub fn differences(first: &[f64], second: &[f64]) -> Vec<f64> {
    first.iter().flat_map(|x| second.iter().map(move |y| y - x)).collect()
}

/// The centre of a sample: the median of its Walsh averages. `None` without values.
#[must_use]
pub fn centre(values: &[f64]) -> Option<f64> {
    median_in_place(&mut walsh_averages(values))
}

/// By how much the second sample lies above the first: the median of all differences. `None` if one is empty.
#[must_use]
pub fn shift(first: &[f64], second: &[f64]) -> Option<f64> {
    median_in_place(&mut differences(first, second))
}

/// The `k`th smallest and the `k`th largest, `k` from 1. `None` if there are fewer.
pub(super) fn kth_from_both_ends(values: &mut [f64], k: usize) -> Option<(f64, f64)> {
    let low_at = k.checked_sub(1)?;
    let high_at = values.len().checked_sub(k)?;
    let low = *values.select_nth_unstable_by(low_at, f64::total_cmp).1;
    let high = *values.select_nth_unstable_by(high_at, f64::total_cmp).1;
    Some((low, high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // Averages of 1, 2, 6: 1, 1.5, 3.5, 2, 4, 6; in order 1 1.5 2 3.5 4 6.
        assert_eq!(centre(&[1.0, 2.0, 6.0]), Some(2.75));
        assert_eq!(shift(&[1.0, 2.0], &[4.0, 8.0]), Some(4.5));
        assert_eq!((centre(&[]), shift(&[], &[1.0])), (None, None));
    }

    #[test]
    fn one_wild_value_moves_it_little() {
        let calm: Vec<f64> = (0..20).map(f64::from).collect();
        let mut wild = calm.clone();
        wild[19] = 1e9;
        assert!(centre(&wild).unwrap() - centre(&calm).unwrap() < 1.0);
    }
}
