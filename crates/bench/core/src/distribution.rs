//! Distributions: made of single values, asked for a quantile, merged.
//!
//! Quantiles are of *all* operations: one that failed counts as worse than every answer. A quantile that would fall on
//! a failed operation does not exist and is left out, and so is one with fewer than ten operations beyond it: it would
//! be one outlier's value, not the distribution's.

use crate::metric::Distribution;

/// The quantiles that are kept where the samples suffice.
pub const QUANTILES: [f64; 11] = [0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];

/// Operations that must lie beyond a quantile.
const BEYOND: f64 = 10.0;

impl Distribution {
    /// Of single values, in the metric's unit, and the number of operations that failed. `None` if nothing was measured
    /// or a value is not finite.
    #[must_use]
    pub fn of(mut values: Vec<f64>, failed: u64) -> Option<Self> {
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let samples = values.len() as u64;
        let quantiles = QUANTILES
            .into_iter()
            .filter(|&q| is_supported(q, samples, failed))
            .filter_map(|q| Some((q, *values.get(rank(q, samples + failed))?)))
            .collect();
        let mean = (values.iter().sum::<f64>() / samples as f64).clamp(min, max);
        Some(Self { samples, failed, min, mean, max, quantiles })
    }

    /// The value of a quantile, if it was kept.
    #[must_use]
    pub fn at(&self, quantile: f64) -> Option<f64> {
        self.quantiles.iter().find(|(q, _)| (q - quantile).abs() < 1e-9).map(|&(_, value)| value)
    }

    /// Operations, failed ones too.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.samples + self.failed
    }

    /// The distribution of the operations of all parts together. Counts, smallest, largest and mean are exact. Quantiles
    /// are those that every part has, read off the mixture of the parts' distribution functions, each taken as straight
    /// between its quantiles: exact for equal parts, and always between the smallest and the largest of the parts'.
    #[must_use]
    pub fn merge(parts: &[&Self]) -> Option<Self> {
        let parts: Vec<&Self> = parts.iter().copied().filter(|part| part.samples > 0).collect();
        let first = parts.first()?;
        let samples = parts.iter().map(|part| part.samples).sum::<u64>();
        let min = parts.iter().map(|part| part.min).fold(f64::INFINITY, f64::min);
        let max = parts.iter().map(|part| part.max).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = parts.iter().map(|part| part.mean * part.samples as f64).sum();
        let mixture = Mixture::new(&parts);
        let quantiles = first
            .quantiles
            .iter()
            .map(|&(q, _)| q)
            .filter(|&q| parts.iter().all(|part| part.at(q).is_some()))
            .filter_map(|q| Some((q, mixture.quantile(q)?)))
            .collect();
        Some(Self {
            samples,
            failed: parts.iter().map(|part| part.failed).sum(),
            min,
            mean: (sum / samples as f64).clamp(min, max),
            max,
            quantiles,
        })
    }
}

/// Are there enough operations on both sides, and does it fall on one that did not fail?
fn is_supported(q: f64, samples: u64, failed: u64) -> bool {
    let all = (samples + failed) as f64;
    let enough = |share: f64| share * all + 1e-9 >= BEYOND;
    enough(1.0 - q) && enough(q) && (rank(q, samples + failed) as u64) < samples
}

/// Index of the nearest-rank quantile in the sorted values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "q is at most 1, so the rank is below the count, which is a usize"
)]
fn rank(q: f64, all: u64) -> usize {
    ((q * all as f64 - 1e-9).ceil().max(1.0) as usize) - 1
}

/// The parts' distribution functions, weighted by their operations.
struct Mixture {
    /// Weight, and knots of value and share of the operations at or below it, ascending.
    parts: Vec<(f64, Vec<(f64, f64)>)>,
    /// Every value at which one of them has a knot, ascending.
    values: Vec<f64>,
}

impl Mixture {
    fn new(parts: &[&Distribution]) -> Self {
        let all: u64 = parts.iter().map(|part| part.operations()).sum();
        let parts: Vec<_> =
            parts.iter().map(|part| (part.operations() as f64 / all as f64, knots(part))).collect();
        let mut values: Vec<f64> =
            parts.iter().flat_map(|(_, knots)| knots.iter().map(|&(value, _)| value)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        Self { parts, values }
    }

    fn quantile(&self, q: f64) -> Option<f64> {
        let mut last = (*self.values.first()?, 0.0);
        for &value in &self.values {
            let (below, at) = self.share(value);
            if q <= below && below > last.1 {
                let along = ((q - last.1) / (below - last.1)).clamp(0.0, 1.0);
                return Some(last.0 + along * (value - last.0));
            }
            if q <= at + 1e-12 {
                return Some(value);
            }
            last = (value, at);
        }
        None
    }

    /// Shares of the operations below a value, and at or below it.
    fn share(&self, value: f64) -> (f64, f64) {
        self.parts.iter().fold((0.0, 0.0), |sum, (weight, knots)| {
            let (below, at) = share(knots, value);
            (sum.0 + weight * below, sum.1 + weight * at)
        })
    }
}

/// Straight pieces from the smallest over the quantiles to the largest.
fn knots(part: &Distribution) -> Vec<(f64, f64)> {
    let answered = part.samples as f64 / part.operations() as f64;
    let mut knots = vec![(part.min, 0.0)];
    knots.extend(part.quantiles.iter().map(|&(q, value)| (value, q)));
    knots.push((part.max, answered));
    knots
}

/// Shares below a value, and at or below it, of straight pieces; they differ where a piece is upright.
fn share(knots: &[(f64, f64)], value: f64) -> (f64, f64) {
    let Some(&(highest, total)) = knots.last() else { return (0.0, 0.0) };
    if value > highest {
        return (total, total);
    }
    let before = knots.iter().rev().find(|knot| knot.0 < value).copied();
    let after = knots.iter().find(|knot| knot.0 > value).copied();
    let mut here = knots.iter().filter(|knot| knot.0 == value);
    if let Some(first) = here.next() {
        return (first.1, here.next_back().unwrap_or(first).1);
    }
    match (before, after) {
        (Some(a), Some(b)) => {
            let at = a.1 + (b.1 - a.1) * (value - a.0) / (b.0 - a.0);
            (at, at)
        }
        (None, _) => (0.0, 0.0),
        (Some(_), None) => (total, total),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distribution() -> impl Strategy<Value = Distribution> {
        (prop::collection::vec(0.0..1e6f64, 1..3000), 0..50u64)
            .prop_map(|(values, failed)| Distribution::of(values, failed).unwrap())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn equal_parts_merge_to_themselves(part in distribution(), times in 1..5usize) {
            let merged = Distribution::merge(&vec![&part; times]).unwrap();
            prop_assert_eq!(merged.samples, part.samples * times as u64);
            prop_assert_eq!(merged.failed, part.failed * times as u64);
            for ((q, got), (p, want)) in merged.quantiles.iter().zip(&part.quantiles) {
                prop_assert_eq!(q, p);
                prop_assert!((got - want).abs() <= 1e-6 * want.abs().max(1.0), "{q}: {got} {want}");
            }
        }

        #[test]
        fn a_merged_quantile_lies_between_its_parts(a in distribution(), b in distribution(), c in distribution()) {
            let parts = [&a, &b, &c];
            let merged = Distribution::merge(&parts).unwrap();
            let mut last = merged.min;
            for &(q, value) in &merged.quantiles {
                let of: Vec<f64> = parts.iter().map(|part| part.at(q).unwrap()).collect();
                let low = of.iter().copied().fold(f64::INFINITY, f64::min);
                let high = of.iter().copied().fold(0.0, f64::max);
                prop_assert!(value >= low - 1e-6 && value <= high + 1e-6, "{q}: {value} not in {low}..{high}");
                prop_assert!(value >= last - 1e-6);
                last = value;
            }
            prop_assert!(merged.min <= merged.mean && merged.mean <= merged.max);
            prop_assert_eq!(merged.operations(), a.operations() + b.operations() + c.operations());
        }

        #[test]
        fn merging_comes_near_to_measuring_together(seed in 0..1000u32) {
            // Two exponential-like sets of different scale; interpolation may err, but not wildly.
            let values = |scale: f64, offset: u32| -> Vec<f64> {
                (0..4000u32).map(|i| {
                    let u = f64::from((i * 7919 + seed * 31 + offset) % 4000) / 4000.0 + 1e-4;
                    -u.ln() * scale
                }).collect()
            };
            let (a, b) = (values(1.0, 0), values(3.0, 17));
            let together = Distribution::of([a.clone(), b.clone()].concat(), 0).unwrap();
            let (a, b) = (Distribution::of(a, 0).unwrap(), Distribution::of(b, 0).unwrap());
            let merged = Distribution::merge(&[&a, &b]).unwrap();
            for q in [0.1, 0.25, 0.5, 0.75, 0.9, 0.95] {
                let (got, want) = (merged.at(q).unwrap(), together.at(q).unwrap());
                prop_assert!((got / want - 1.0).abs() < 0.15, "{q}: {got} {want}");
            }
        }
    }

    #[test]
    fn what_failed_is_worse_than_every_answer() {
        let values: Vec<f64> = (1..=950u32).map(f64::from).collect();
        let of = Distribution::of(values, 50).unwrap();
        assert_eq!(of.at(0.5), Some(500.0));
        assert_eq!(of.at(0.95), Some(950.0));
        assert_eq!(of.at(0.99), None, "the 990th of 1000 got no answer");
        assert!(Distribution::of(vec![1.0, f64::NAN], 0).is_none());
        assert!(Distribution::of(Vec::new(), 3).is_none());
    }

    #[test]
    fn a_quantile_needs_ten_operations_beyond_it() {
        let values: Vec<f64> = (1..=999u32).map(f64::from).collect();
        assert_eq!(Distribution::of(values.clone(), 0).unwrap().at(0.99), None);
        assert_eq!(
            Distribution::of([values, vec![1000.0]].concat(), 0).unwrap().at(0.99),
            Some(990.0)
        );
    }
}
