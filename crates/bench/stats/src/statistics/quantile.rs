//! Quantiles, and how many values one takes.

/// The quantile `q` (0 to 1) of values in ascending order, interpolated linearly between neighbours: type 7 of
/// R. Hyndman, Y. Fan, "Sample quantiles in statistical packages", American Statistician 50(4), 1996, as in NumPy.
/// `None` without values.
#[must_use]
pub fn of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = q.clamp(0.0, 1.0) * last as f64;
    let below = floor(place).min(last);
    let (low, high) = (sorted[below], sorted[(below + 1).min(last)]);
    Some(low + (high - low) * (place - below as f64))
}

/// The quantile of values in any order.
#[must_use]
pub fn quantile(values: &[f64], q: f64) -> Option<f64> {
    of_sorted(&sorted(values), q)
}

/// The median.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    median_in_place(&mut values.to_vec())
}

/// The median of values that may be reordered: in linear time.
#[must_use]
pub fn median_in_place(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let is_even = values.len().is_multiple_of(2);
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if !is_even {
        return Some(*upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some((lower + *upper) / 2.0)
}

/// The median distance from the median, unscaled (times 1.4826 it estimates the standard deviation of normal values).
#[must_use]
pub fn mad(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    median_in_place(&mut values.iter().map(|value| (value - middle).abs()).collect::<Vec<_>>())
}

/// How many values it takes before the quantile `q` (between 0 and 1, exclusive) has an interval with this confidence
/// that rests on nothing but order: the fewest with which neither "all are below it" nor "all are above it" has more
/// than half of the remaining probability. 368 for p99 with 95 %, 6 for the median.
#[must_use]
pub fn values_needed(q: f64, confidence: f64) -> u64 {
    let tail = (1.0 - confidence) / 2.0;
    let rare = q.max(1.0 - q);
    let needed = (tail.ln() / rare.ln()).ceil();
    if needed.is_finite() { floor(needed) as u64 } else { u64::MAX }
}

pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The whole part of a number that is not negative.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(super) fn floor(value: f64) -> usize {
    value as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5.0]), Some(5.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0, 4.0]), Some(3.5));
        assert_eq!(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
    }

    #[test]
    fn the_ends_are_the_extremes() {
        let values = [4.0, 8.0, 6.0];
        assert_eq!(quantile(&values, 0.0), Some(4.0));
        assert_eq!(quantile(&values, 1.0), Some(8.0));
        assert_eq!(quantile(&values, 0.75), Some(7.0));
    }

    #[test]
    fn high_quantiles_take_many_values() {
        assert_eq!(values_needed(0.99, 0.95), 368);
        assert_eq!(values_needed(0.5, 0.95), 6);
        assert_eq!(values_needed(0.999, 0.95), 3688);
        assert_eq!(values_needed(1.0, 0.95), u64::MAX);
    }
}
