//! Does a sequence rise or fall?
//!
//! H. Theil 1950 and P. Sen, "Estimates of the regression coefficient based on Kendall's tau", JASA 63, 1968; the test
//! by M. Kendall's S.

use super::{normal, quantile::median_in_place, ranks::doubled_midranks};
use serde::{Deserialize, Serialize};

/// How a sequence goes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trend {
    /// The median of the slopes between any two values, per step.
    pub slope: f64,
    /// Two-sided probability of such an order without a trend, by the normal approximation (corrected for ties).
    pub p: f64,
}

/// The trend of values one step apart. `None` for fewer than 3, or if all are equal.
#[must_use]
pub fn trend(values: &[f64]) -> Option<Trend> {
    if values.len() < 3 {
        return None;
    }
    let mut slopes = Vec::with_capacity(values.len() * (values.len() - 1) / 2);
    let mut s = 0.0;
    for (at, first) in values.iter().enumerate() {
        for (apart, later) in values[at + 1..].iter().enumerate() {
            slopes.push((later - first) / (apart + 1) as f64);
            s += f64::from(i8::from(later > first) - i8::from(later < first));
        }
    }
    let (_, ties) = doubled_midranks(values);
    let cubes = |n: usize| n as f64 * (n as f64 - 1.0) * (2.0 * n as f64 + 5.0);
    let variance = (cubes(values.len()) - ties.into_iter().map(cubes).sum::<f64>()) / 18.0;
    let slope = median_in_place(&mut slopes)?;
    let p = (2.0 * normal::sf(s.abs() / variance.sqrt())).min(1.0);
    (variance > 0.0).then_some(Trend { slope, p })
}

#[cfg(test)]
mod tests {
    use super::trend;

    #[test]
    fn a_line_has_its_slope() {
        let line: Vec<f64> = (0..20).map(|at| 3.0 + 0.25 * f64::from(at)).collect();
        let found = trend(&line).unwrap();
        assert_eq!(found.slope, 0.25);
        assert!(found.p < 1e-8, "{found:?}");
        assert_eq!(trend(&[1.0; 9]), None);
        assert_eq!(trend(&line[..2]), None);
    }
}
