//! Numbers for people: as many digits as mean something, and a unit that fits.
//!
//! The recording's report in the command line does the same with three digits; measurements are compared, so here it is
//! four, and the digits of a change follow from how wide its interval is.

use super::Estimate;
use chrono::{DateTime, Utc};
use std::time::{Duration, UNIX_EPOCH};
use transect_bench_core::Unit;

/// What stands where nothing is known or nothing applies.
pub(super) const DASH: &str = "–";

/// Significant digits of a measured value.
const DIGITS: usize = 4;

/// Beyond these a change is told as a factor: "+1,130 %" is harder to read than "×12.3".
const FACTOR_FROM: f64 = 10.0;

/// A unit with its prefix: values are divided by `scale` and called `name`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    /// One of these in the metric's unit.
    pub scale: f64,
    /// What it is called; empty for plain numbers.
    pub name: &'static str,
}

const SECONDS: &[(f64, &str)] = &[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
const NANOSECONDS: &[(f64, &str)] = &[(1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")];
const RATES: &[(f64, &str)] = &[(1e9, "G/s"), (1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")];
const BYTE_RATES: &[(f64, &str)] =
    &[(1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")];
const BYTES: &[(f64, &str)] = &[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")];
const COUNTS: &[(f64, &str)] = &[(1.0, "")];
const SHARES: &[(f64, &str)] = &[(0.01, "%")];

impl Scale {
    /// The unit in which a value of this magnitude has one to three digits before the point.
    pub(super) fn of(magnitude: f64, unit: Unit) -> Self {
        let scales = match unit {
            Unit::Seconds => SECONDS,
            Unit::Nanoseconds => NANOSECONDS,
            Unit::PerSecond => RATES,
            Unit::BytesPerSecond => BYTE_RATES,
            Unit::Bytes => BYTES,
            Unit::Count => COUNTS,
            Unit::Share => SHARES,
        };
        // 999.95 of a unit would be printed as 1000 of it, so the next one takes over from there.
        let fits = |&&(scale, _): &&(f64, &str)| magnitude.abs() >= scale * 0.999_95;
        let smallest = scales.last().copied().unwrap_or((1.0, ""));
        let (scale, name) = scales.iter().find(fits).copied().unwrap_or(smallest);
        Self { scale, name }
    }

    /// A value in this unit, without its name.
    pub(super) fn show(self, value: f64) -> String {
        significant(value / self.scale, DIGITS)
    }
}

/// A measured value with its unit: `1.234 ms`, `12.34 k/s`, `45.60 %`.
pub(super) fn quantity(value: f64, unit: Unit) -> String {
    let scale = Scale::of(value, unit);
    if value == 0.0 || scale.name.is_empty() {
        return scale.show(value);
    }
    format!("{} {}", scale.show(value), scale.name)
}

/// The same where there may be none.
pub(super) fn quantity_or_dash(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| DASH.to_owned(), |value| quantity(value, unit))
}

/// The metric's unit in words, for the titles of axes.
pub(super) const fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Seconds => "s",
        Unit::Nanoseconds => "ns",
        Unit::PerSecond => "1/s",
        Unit::BytesPerSecond => "B/s",
        Unit::Bytes => "B",
        Unit::Count => "1",
        Unit::Share => "share",
    }
}

/// A number with so many significant digits, whole numbers in full: `1.234`, `12.34`, `1,234`, `1.234e30`.
pub(super) fn significant(value: f64, digits: usize) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // A change of unit may lead beyond the largest number there is; nothing measured does.
    let value = value.clamp(f64::MIN, f64::MAX);
    let scientific = format!("{value:.*e}", digits.saturating_sub(1));
    let exponent: i32 =
        scientific.split_once('e').and_then(|(_, tail)| tail.parse().ok()).unwrap_or(0);
    if !(-6..15).contains(&exponent) {
        return scientific;
    }
    let after = i32::try_from(digits).unwrap_or(i32::MAX).saturating_sub(1 + exponent).max(0);
    fixed(value, usize::try_from(after).unwrap_or(0))
}

/// A number with so many decimals and thousands separators; what is rounded to nothing has no sign.
pub(super) fn fixed(value: f64, decimals: usize) -> String {
    if value.abs() >= 1e15 {
        return significant(value, DIGITS);
    }
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let is_zero = text.chars().all(|c| matches!(c, '0' | '.'));
    let sign = if value < 0.0 && !is_zero { "-" } else { "" };
    format!("{sign}{}{rest}", separated(whole))
}

/// A count with thousands separators.
pub(super) fn count(value: u64) -> String {
    separated(&value.to_string())
}

/// A count with its noun: `1 run`, `2 runs`.
pub(super) fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A count that a program holds in memory, with its noun.
pub(super) fn counted_len(value: usize, noun: &str) -> String {
    counted(value as u64, noun)
}

fn separated(digits: &str) -> String {
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A size of memory, in the binary units that it is planned in: `1,024 MiB`, `1.50 GiB`.
pub(super) fn memory(bytes: u64) -> String {
    const MIB: f64 = 1_048_576.0;
    let value = bytes as f64;
    if value >= 10.0 * 1024.0 * MIB {
        return format!("{} GiB", significant(value / MIB / 1024.0, 3));
    }
    format!("{} MiB", significant(value / MIB, 3))
}

/// A share of one in per cent: `0.42 %`, `12 %`.
pub(super) fn per_cent(share: f64) -> String {
    format!("{} %", significant(share * 100.0, 2))
}

/// A probability: `<0.001`, `0.032`.
pub(super) fn probability(value: f64) -> String {
    if value > 0.0 && value < 0.001 {
        return "<0.001".to_owned();
    }
    fixed(value, 3)
}

/// A ratio with its interval as a change of the reference: `+3.2 %` and `[2.9 … 3.6]`; from a tenfold on as a factor:
/// `×12.3` and `[12.1 … 12.6]`.
pub(super) fn change(estimate: &Estimate) -> (String, String) {
    let Estimate { ratio, low, high, .. } = *estimate;
    if ratio >= FACTOR_FROM || (ratio > 0.0 && ratio <= 1.0 / FACTOR_FROM) {
        let show = |value| significant(value, 3);
        return (format!("×{}", show(ratio)), format!("[{} … {}]", show(low), show(high)));
    }
    let decimals = decimals(estimate);
    let show = |value: f64| fixed(100.0 * (value - 1.0), decimals);
    let middle = show(ratio);
    let sign = if ratio > 1.0 && middle.chars().any(|c| matches!(c, '1'..='9')) { "+" } else { "" };
    (format!("{sign}{middle} %"), format!("[{} … {}]", show(low), show(high)))
}

/// Decimals of a change in per cent that its interval leaves something to say: about two digits of the interval.
pub(super) fn decimals(estimate: &Estimate) -> usize {
    let width = (100.0 * (estimate.high - estimate.low)).abs();
    match width {
        w if w >= 1.0 => usize::from(w < 4.0),
        w if w >= 0.1 => 1,
        w if w >= 0.01 => 2,
        _ => 3,
    }
}

/// A wall clock: `2026-11-22 07:38:52 UTC`.
pub(super) fn utc(unix_ns: u64) -> String {
    let time = DateTime::<Utc>::from(UNIX_EPOCH + Duration::from_nanos(unix_ns));
    time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A span of wall-clock time: `42 s`, `12 min`, `3 h 05 min`.
pub(super) fn span(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {:02} min", count(seconds / 3_600), seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(ratio: f64, low: f64, high: f64) -> Estimate {
        Estimate { ratio, low, high, confidence: 0.97, blocks: 10 }
    }

    #[test]
    fn quantities_have_four_digits_and_a_unit_that_fits() {
        assert_eq!(quantity(0.001_234, Unit::Seconds), "1.234 ms");
        assert_eq!(quantity(999.96, Unit::Nanoseconds), "1.000 µs");
        assert_eq!(quantity(123_456.0, Unit::PerSecond), "123.5 k/s");
        assert_eq!(quantity(2.5e9, Unit::BytesPerSecond), "2.500 GB/s");
        assert_eq!(quantity(1_234_567.0, Unit::Count), "1,234,567");
        assert_eq!(quantity(0.4567, Unit::Share), "45.67 %");
        assert_eq!(quantity(0.0, Unit::Seconds), "0");
        assert_eq!(quantity(-0.25, Unit::Seconds), "-250.0 ms");
        assert_eq!(quantity(1e300, Unit::Seconds), "1.000e300 s");
        assert_eq!(quantity(1e-30, Unit::Seconds), "1.000e-21 ns");
    }

    #[test]
    fn the_digits_of_a_change_follow_from_its_interval() {
        let words = |ratio, low, high| change(&estimate(ratio, low, high));
        let is = |found: (String, String), change: &str, interval: &str| {
            assert_eq!((found.0.as_str(), found.1.as_str()), (change, interval));
        };
        is(words(1.032, 1.029, 1.036), "+3.2 %", "[2.9 … 3.6]");
        is(words(1.1312, 1.08, 1.19), "+13 %", "[8 … 19]");
        is(words(0.95, 0.9496, 0.9503), "-5.00 %", "[-5.04 … -4.97]");
        is(words(1.0001, 0.99, 1.01), "0.0 %", "[-1.0 … 1.0]");
        is(words(12.34, 12.1, 12.61), "×12.3", "[12.1 … 12.6]");
        is(words(0.01, 0.009, 0.011), "×0.0100", "[0.00900 … 0.0110]");
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_399_000_000_000), "2000-02-28 23:59:59 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(u64::MAX), "2554-07-21 23:34:33 UTC");
    }

    #[test]
    fn spans_and_sizes() {
        assert_eq!(span(119_000_000_000), "119 s");
        assert_eq!(span(1_194_000_000_000), "20 min");
        assert_eq!(span(11_100_000_000_000), "3 h 05 min");
        assert_eq!(memory(1 << 30), "1,024 MiB");
        assert_eq!(memory(25_000_000_000), "23.3 GiB");
        assert_eq!(probability(0.0004), "<0.001");
        assert_eq!(probability(1.0), "1.000");
        assert_eq!(per_cent(0.0042), "0.42 %");
    }
}
