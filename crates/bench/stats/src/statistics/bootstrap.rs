//! The bootstrap: B. Efron, R. Tibshirani, *An Introduction to the Bootstrap*, 1993.
//!
//! A cross-check only. With 10 to 40 blocks and now and then a spike it covers less often than it says (`tests/it/slow/simulate.rs`
//! prints how often), which the signed-rank interval does not.

use super::{normal, quantile, random::Random};

/// The statistic of `resamples` samples drawn from the values with replacement.
pub fn distribution(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    resamples: usize,
    seed: u64,
) -> Vec<f64> {
    let mut random = Random::new(seed);
    let mut sample = values.to_vec();
    (0..resamples)
        .map(|_| {
            sample
                .fill_with(|| values.get(random.below(values.len())).copied().unwrap_or(f64::NAN));
            statistic(&sample)
        })
        .collect()
}

/// Efron's percentile interval: the middle of the distribution. `None` without one.
#[must_use]
pub fn percentile(distribution: &[f64], confidence: f64) -> Option<(f64, f64)> {
    let sorted = quantile::sorted(distribution);
    let tail = (1.0 - confidence) / 2.0;
    Some((quantile::of_sorted(&sorted, tail)?, quantile::of_sorted(&sorted, 1.0 - tail)?))
}

/// The bias-corrected and accelerated interval: B. Efron, "Better bootstrap confidence intervals", JASA 82, 1987.
/// `None` where it is not defined: the distribution lies on one side of the estimate, or all values are equal.
pub fn bca(
    values: &[f64],
    statistic: impl Fn(&[f64]) -> f64,
    distribution: &[f64],
    confidence: f64,
) -> Option<(f64, f64)> {
    let bias = bias(distribution, statistic(values))?;
    let acceleration = acceleration(values, statistic)?;
    let moved = |tail: f64| {
        let z = bias + normal::ppf(tail);
        normal::cdf(bias + z / (1.0 - acceleration * z))
    };
    let tail = (1.0 - confidence) / 2.0;
    let sorted = quantile::sorted(distribution);
    let low = quantile::of_sorted(&sorted, moved(tail))?;
    Some((low, quantile::of_sorted(&sorted, moved(1.0 - tail))?))
}

/// Where in the distribution the estimate lies, as a normal quantile.
fn bias(distribution: &[f64], estimate: f64) -> Option<f64> {
    let below = distribution.iter().filter(|value| **value < estimate).count();
    let up_to = distribution.iter().filter(|value| **value <= estimate).count();
    let share = (below + up_to) as f64 / (2.0 * distribution.len() as f64);
    Some(normal::ppf(share)).filter(|bias| bias.is_finite())
}

/// How the statistic's spread changes with its value: the skewness of what each value contributes to it.
fn acceleration(values: &[f64], statistic: impl Fn(&[f64]) -> f64) -> Option<f64> {
    let without: Vec<f64> = (0..values.len())
        .map(|left_out| {
            let mut rest = values.to_vec();
            rest.remove(left_out);
            statistic(&rest)
        })
        .collect();
    let mean = without.iter().sum::<f64>() / without.len() as f64;
    let moment = |power| without.iter().map(|value| (mean - value).powi(power)).sum::<f64>();
    let spread = moment(2);
    (spread > 0.0).then(|| moment(3) / (6.0 * spread.powf(1.5)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::hodges_lehmann;

    fn centre(values: &[f64]) -> f64 {
        hodges_lehmann::centre(values).unwrap_or(f64::NAN)
    }

    #[test]
    fn the_same_seed_gives_the_same() {
        let values: Vec<f64> = (0..12).map(|at| f64::from(at * at)).collect();
        let once = distribution(&values, centre, 200, 3);
        assert_eq!(once, distribution(&values, centre, 200, 3));
        assert_ne!(once, distribution(&values, centre, 200, 4));
        let (low, high) = bca(&values, centre, &once, 0.95).unwrap();
        assert!(low < centre(&values) && centre(&values) < high);
    }

    #[test]
    fn equal_values_have_no_interval() {
        let values = [2.0; 8];
        let same = distribution(&values, centre, 50, 1);
        assert_eq!(bca(&values, centre, &same, 0.95), None);
        assert_eq!(percentile(&[], 0.95), None);
    }
}
