//! How values are distributed.

use transect_bench_core::Distribution;

/// The quantiles that are kept.
const QUANTILES: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99];

/// The distribution of at least one value.
pub(crate) fn of(mut values: Vec<f64>) -> Option<Distribution> {
    values.sort_by(f64::total_cmp);
    let (first, last) = (*values.first()?, *values.last()?);
    #[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 values")]
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    Some(Distribution {
        samples: values.len() as u64,
        failed: 0,
        min: first,
        mean,
        max: last,
        quantiles: QUANTILES.iter().map(|q| (*q, quantile(&values, *q))).collect(),
    })
}

/// A quantile of ascending values, between the two nearest (type 7 of Hyndman and Fan, as NumPy's).
pub(crate) fn quantile(values: &[f64], q: f64) -> f64 {
    #[allow(clippy::cast_precision_loss, reason = "far fewer than 2^53 values")]
    let at = q * (values.len().saturating_sub(1)) as f64;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let below = at.floor() as usize;
    let (Some(low), high) = (values.get(below), values.get(below + 1)) else { return f64::NAN };
    low + (high.unwrap_or(low) - low) * at.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_numpys() {
        let spread = of(vec![4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.samples, spread.min, spread.mean, spread.max), (4, 1.0, 2.5, 4.0));
        let at = |q: f64| spread.quantiles.iter().find(|(of, _)| *of == q).unwrap().1;
        // numpy.quantile([1, 2, 3, 4], [.25, .5, .9])
        assert_eq!((at(0.25), at(0.5)), (1.75, 2.5));
        assert!((at(0.9) - 3.7).abs() < 1e-12);
        assert!(of(vec![]).is_none());
    }
}
