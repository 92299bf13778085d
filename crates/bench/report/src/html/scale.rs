//! Axes: where a value goes, and where its ticks are.

use crate::number::significant;

/// A stretch of values on a stretch of the page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    kind: Kind,
    low: f64,
    high: f64,
    /// Where `low` goes.
    from: f64,
    /// Where `high` goes.
    to: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Linear,
    Log,
}

/// Smallest value on a logarithmic axis: what is not above nothing is drawn at its lower end.
const TINY: f64 = 1e-12;
/// The largest, for the same reason: a factor beyond it is no finite number.
const HUGE: f64 = 1e18;

impl Axis {
    /// An even axis. Where all values are the same, they are in the middle.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let (low, high) = if low < high { (low, high) } else { widened(low) };
        Self { kind: Kind::Linear, low, high, from, to }
    }

    /// A logarithmic axis.
    pub(super) fn log(low: f64, high: f64, from: f64, to: f64) -> Self {
        let low = low.clamp(TINY, HUGE);
        let high = if high > low { high.min(HUGE * 2.0) } else { low * 1.01 };
        Self { kind: Kind::Log, low, high, from, to }
    }

    /// Where a value goes; what is beyond the axis goes to its end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let share = match self.kind {
            // Halves, because the difference of two huge numbers need not be a number.
            Kind::Linear => (value / 2.0 - self.low / 2.0) / (self.high / 2.0 - self.low / 2.0),
            Kind::Log => (value.max(TINY).ln() - self.low.ln()) / (self.high.ln() - self.low.ln()),
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.5 };
        self.from + share * (self.to - self.from)
    }

    /// Is a value within the axis?
    pub(super) fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The values that it spans.
    pub(super) const fn span(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Round values on the axis, at most about `most`.
    pub(super) fn ticks(&self, most: u32) -> Vec<f64> {
        match self.kind {
            Kind::Log if self.high / self.low >= 8.0 => decades(self.low, self.high, most),
            _ => even(self.low, self.high, most),
        }
    }
}

fn widened(value: f64) -> (f64, f64) {
    let by = (value.abs() * 0.01).max(f64::MIN_POSITIVE * 1e10);
    let (low, high) = (value - by, value + by);
    if low.is_finite() && high.is_finite() { (low, high) } else { (value / 1.01, value) }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn even(low: f64, high: f64, most: u32) -> Vec<f64> {
    let rough = high / f64::from(most) - low / f64::from(most);
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|nice| nice * power).find(|s| *s >= rough);
    let Some(step) = step.filter(|step| step.is_normal()) else {
        return vec![low, high];
    };
    let first = (low / step).ceil();
    let tick = |nth: u32| (first + f64::from(nth)) * step;
    let is_within = |tick: &f64| tick.is_finite() && *tick <= high + step * 1e-9;
    (0..=most + 1).map(tick).take_while(is_within).collect()
}

/// Powers of ten, with 2 and 5 in between where there is room; else every second, third, … of them.
fn decades(low: f64, high: f64, most: u32) -> Vec<f64> {
    let powers = low.log10().floor()..=high.log10().ceil();
    let count = powers.end() - powers.start();
    let within = |value: &f64| (low..=high).contains(value);
    let mut last = Vec::new();
    for (steps, stride) in [
        (&[1.0, 2.0, 5.0][..], 1.0),
        (&[1.0, 3.0], 1.0),
        (&[1.0], 1.0),
        (&[1.0], 2.0),
        (&[1.0], 3.0),
        (&[1.0], (count / f64::from(most)).ceil().max(1.0)),
    ] {
        last.clear();
        let mut power = (powers.start() / stride).floor() * stride;
        while power <= *powers.end() {
            last.extend(steps.iter().map(|step| step * 10_f64.powf(power)).filter(within));
            power += stride;
        }
        if u32::try_from(last.len()).is_ok_and(|len| len <= most) {
            break;
        }
    }
    last
}

/// The smallest and the largest of finite values.
pub(super) fn extent(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().fold(None, |sofar, value| match sofar {
        None => Some((value, value)),
        Some((low, high)) => Some((low.min(value), high.max(value))),
    })
}

/// A coordinate: one decimal, which is a tenth of a pixel.
pub(super) fn c(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// A tick's number, without decimals that say nothing.
pub(super) fn short(value: f64) -> String {
    let text = significant(value, 3);
    if text.contains('.') && !text.contains('e') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(
            Axis::linear(0.0, 1.0, 0.0, 100.0).ticks(5),
            [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]
        );
        assert_eq!(Axis::log(0.9, 30.0, 0.0, 100.0).ticks(6), [1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(Axis::log(1.0, 1e9, 0.0, 100.0).ticks(5), [1.0, 1e2, 1e4, 1e6, 1e8]);
        let narrow = Axis::log(0.97, 1.05, 0.0, 100.0).ticks(5);
        assert!(narrow.len() >= 3 && narrow.contains(&1.0), "{narrow:?}");
    }

    #[test]
    fn whatever_the_values_they_stay_on_the_page() {
        let odd = [0.0, -1.0, 1e308, -1e308, 5e-324, 1.0];
        for low in odd {
            for high in odd {
                for axis in [Axis::linear(low, high, 10.0, 90.0), Axis::log(low, high, 10.0, 90.0)]
                {
                    for value in odd {
                        assert!((10.0..=90.0).contains(&axis.at(value)), "{axis:?} {value}");
                    }
                    assert!(axis.ticks(5).len() <= 8, "{axis:?}");
                    assert!(axis.ticks(5).iter().all(|tick| tick.is_finite()), "{axis:?}");
                }
            }
        }
    }
}
