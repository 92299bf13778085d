//! Numbers for people: three significant digits and a unit that fits.

use crate::{people::human_bytes, time::TimeUnit};

/// A length of time: `0`, `999 ns`, `1.23 µs`, `41.0 ms`, `5.00 s`, `1,234 s`; in a recording
/// whose ticks have no known length `1.23 Mticks`.
pub fn duration(value: i64, unit: TimeUnit) -> String {
    let scales: &[(f64, &str)] = match unit {
        TimeUnit::Ns => &[(1e9, "s"), (1e6, "ms"), (1e3, "µs")],
        TimeUnit::Ticks => &[(1e9, "Gticks"), (1e6, "Mticks"), (1e3, "kticks")],
    };
    let smallest = if unit == TimeUnit::Ns { "ns" } else { "ticks" };
    let magnitude = value.unsigned_abs() as f64;
    if value == 0 {
        return "0".to_owned();
    }
    // 999.5 of a unit would be printed as 1000 of it, so the next one takes over from there.
    match scales.iter().find(|(scale, _)| magnitude >= scale * 0.9995) {
        Some((scale, name)) => format!("{} {name}", three_digits(value as f64 / scale)),
        None => format!("{value} {smallest}"),
    }
}

/// The same where it may be unknown.
pub fn duration_or_dash(value: Option<i64>, unit: TimeUnit) -> String {
    value.map_or_else(dash, |value| duration(value, unit))
}

/// What stands where nothing is known or nothing applies.
pub fn dash() -> String {
    "–".to_owned()
}

/// A share: `0 %`, `<0.01 %`, `0.42 %`, `4.20 %`, `42.0 %`, `100 %`.
pub fn share(part: i64, whole: i64) -> String {
    if whole == 0 {
        return dash();
    }
    let per_cent = part as f64 * 100.0 / whole as f64;
    if part == 0 {
        "0 %".to_owned()
    } else if per_cent.abs() < 0.01 {
        "<0.01 %".to_owned()
    } else if per_cent.abs() < 0.995 {
        format!("{per_cent:.2} %")
    } else if part != whole && per_cent.abs() >= 99.95 {
        // "100 %" is kept for what is whole.
        format!("{:.2} %", (per_cent * 100.0).trunc() / 100.0)
    } else {
        format!("{} %", three_digits(per_cent))
    }
}

/// A count with thousands separators.
pub fn count(value: u64) -> String {
    with_separators(&value.to_string())
}

fn with_separators(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A count with its noun: `1 exit`, `2 exits`.
pub fn counted(value: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(value), if value == 1 { "" } else { "s" })
}

/// A size: `512 B`, `1.50 MB`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "whole bytes; what cannot be is 0 of them"
)]
pub fn bytes(value: f64) -> String {
    human_bytes(value.round() as u64)
}

fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 999.5 {
        let whole = with_separators(&format!("{magnitude:.0}"));
        if value < 0.0 { format!("-{whole}") } else { whole }
    } else if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(value: i64) -> String {
        duration(value, TimeUnit::Ns)
    }

    #[test]
    fn durations_have_three_digits_and_never_four() {
        assert_eq!(ns(0), "0");
        assert_eq!(ns(999), "999 ns");
        assert_eq!(ns(1_000), "1.00 µs");
        assert_eq!(ns(41_000_000), "41.0 ms");
        assert_eq!(ns(999_499), "999 µs");
        assert_eq!(ns(999_500), "1.00 ms");
        assert_eq!(ns(5_000_000_000), "5.00 s");
        assert_eq!(ns(1_234_000_000_000), "1,234 s");
        assert_eq!(ns(-20_500), "-20.5 µs");
        assert_eq!(ns(i64::MIN), "-9,223,372,037 s");
        assert_eq!(duration(2_500_000, TimeUnit::Ticks), "2.50 Mticks");
    }

    #[test]
    fn shares_say_all_only_for_all() {
        assert_eq!(share(0, 10), "0 %");
        assert_eq!(share(1, 1_000_000), "<0.01 %");
        assert_eq!(share(42, 10_000), "0.42 %");
        assert_eq!(share(1, 100), "1.00 %");
        assert_eq!(share(41, 100), "41.0 %");
        assert_eq!(share(100, 100), "100 %");
        assert_eq!(share(999_999, 1_000_000), "99.99 %");
        assert_eq!(share(1, 0), "–");
    }

    #[test]
    fn counts_and_sizes() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(9_489), "9,489");
        assert_eq!(count(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1.5e6), "1.50 MB");
    }
}
