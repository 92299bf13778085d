//! The rule: an interval of ours, and a band of theirs.

use super::model::{Agreement, Figure};

/// An effect of the same direction is the same shape from a third to three times the size: within half an order of
/// magnitude to either side. Twenty years of hardware lie between, so sizes are not expected to transfer.
pub const FACTOR: f64 = 3.0;

/// Below this an effect that the paper does not resolve is none: the narrowest interval that is aimed at here.
const LEAST_EFFECT: f64 = 0.01;

/// What ours may be, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Band {
    pub low: f64,
    pub high: f64,
}

impl Band {
    /// Of a cost ratio with its error.
    pub(super) fn around([_, low, high]: [f64; 3]) -> Self {
        if low > 1.0 {
            let [near, far] = [(low - 1.0) / FACTOR, (high - 1.0) * FACTOR];
            Self { low: 1.0 + near, high: 1.0 + far }
        } else if high < 1.0 {
            let other = Self::around([1.0, 1.0 / high, 1.0 / low]);
            Self { low: 1.0 / other.high, high: 1.0 / other.low }
        } else {
            let least = 1.0 + LEAST_EFFECT;
            Self { low: low.min(1.0 / least), high: high.max(least) }
        }
    }

    /// Of a quantity that is no ratio, such as a standard deviation: of its size.
    pub(super) fn of_size(value: f64) -> Self {
        Self { low: value / FACTOR, high: value * FACTOR }
    }

    /// At most so much.
    pub(super) fn up_to(high: f64) -> Self {
        Self { low: 0.0, high }
    }

    /// At least so much.
    pub(super) fn from(low: f64) -> Self {
        Self { low, high: f64::INFINITY }
    }
}

/// Judges a cost ratio: its noise must be known.
pub(super) fn ratio(band: Band, figure: Figure) -> Agreement {
    let Some(floor) = figure.floor else {
        let why = "the noise is unknown: no reference was measured twice (A/A)";
        return Agreement::Unresolved { why: why.to_owned() };
    };
    let effect = figure.value.max(1.0 / figure.value) - 1.0;
    if effect < floor {
        let low = figure.low.min(1.0);
        let high = figure.high.max(1.0);
        return within(band, Figure { low, high, ..figure });
    }
    within(band, figure)
}

/// Judges what has an interval and no reference.
pub(super) fn within(band: Band, figure: Figure) -> Agreement {
    if figure.low >= band.low && figure.high <= band.high {
        Agreement::Holds
    } else if figure.high < band.low || figure.low > band.high {
        Agreement::DoesNotHold
    } else {
        let high =
            if band.high.is_finite() { format!("{:.3}", band.high) } else { "∞".to_owned() };
        let why = format!(
            "ours is {:.3} to {:.3}, the published claim allows {:.3} to {high}",
            figure.low, figure.high, band.low
        );
        Agreement::Unresolved { why }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(low: f64, high: f64, floor: Option<f64>) -> Figure {
        let value = (low * high).sqrt();
        Figure { value, low, high, confidence: 0.97, runs: 10, floor, links: 1 }
    }

    #[test]
    fn a_band_has_the_direction_and_a_third_to_three_times_the_size() {
        let band = Band::around([1.1, 1.09, 1.11]);
        assert!((band.low - 1.03).abs() < 1e-12 && (band.high - 1.33).abs() < 1e-12);
        let mirrored = Band::around([1.0 / 1.1, 1.0 / 1.11, 1.0 / 1.09]);
        assert!((mirrored.low * band.high - 1.0).abs() < 1e-12);
        assert!((mirrored.high * band.low - 1.0).abs() < 1e-12);
    }

    #[test]
    fn without_an_effect_of_theirs_ours_must_have_none() {
        let band = Band::around([1.001, 0.997, 1.005]);
        assert_eq!(ratio(band, ours(0.995, 1.004, Some(0.001))), Agreement::Holds);
        assert_eq!(ratio(band, ours(1.02, 1.03, Some(0.001))), Agreement::DoesNotHold);
        assert!(matches!(ratio(band, ours(0.9, 1.1, Some(0.001))), Agreement::Unresolved { .. }));
    }

    #[test]
    fn an_effect_below_the_floor_is_not_taken_for_one() {
        let band = Band::around([1.05, 1.045, 1.055]);
        assert_eq!(ratio(band, ours(1.03, 1.05, Some(0.01))), Agreement::Holds);
        let below = ratio(band, ours(1.03, 1.05, Some(0.06)));
        assert!(matches!(below, Agreement::Unresolved { .. }), "{below:?}");
        assert!(matches!(ratio(band, ours(1.03, 1.05, None)), Agreement::Unresolved { .. }));
    }

    #[test]
    fn bounds_are_open_on_one_side() {
        assert_eq!(ratio(Band::up_to(1.03), ours(0.9, 1.02, Some(0.0))), Agreement::Holds);
        assert_eq!(ratio(Band::up_to(1.03), ours(1.04, 1.2, Some(0.0))), Agreement::DoesNotHold);
        assert_eq!(ratio(Band::from(1.1), ours(1.2, 9.0, Some(0.0))), Agreement::Holds);
    }
}
