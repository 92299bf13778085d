//! The normal distribution.

use statrs::function::erf::{erfc, erfc_inv};
use std::f64::consts::SQRT_2;

/// Probability of a value of at most `z`. Accurate in relative terms in the lower tail.
#[must_use]
pub fn cdf(z: f64) -> f64 {
    0.5 * erfc(-z / SQRT_2)
}

/// Probability of a value above `z`. Accurate in relative terms in the upper tail.
#[must_use]
pub fn sf(z: f64) -> f64 {
    cdf(-z)
}

/// The value that is not exceeded with probability `p`: the inverse of [`cdf`]. Infinite at 0 and 1.
#[must_use]
pub fn ppf(p: f64) -> f64 {
    -SQRT_2 * erfc_inv(2.0 * p)
}
