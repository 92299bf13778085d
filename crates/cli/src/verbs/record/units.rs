//! Sizes and durations as people write them.

use std::time::Duration;

/// Parses `512K`, `8M`, `1G` to KiB. A bare number is refused: other tools disagree what it means.
pub(crate) fn parse_size_kb(text: &str) -> Result<u64, String> {
    let (digits, unit) = split(text);
    let kb_per_unit = match unit.to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "k" => 1,
        "m" => 1 << 10,
        "g" => 1 << 20,
        _ => return Err("write a size with its unit: 512K, 8M, 1G".to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| "write a whole number: 8M".to_owned())?;
    match number.checked_mul(kb_per_unit) {
        Some(kb) if kb > 0 => Ok(kb),
        _ => Err("out of range".to_owned()),
    }
}

/// Parses `500ms`, `5s`, `1.5s`, `2m`, `1h`; a bare number is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = split(text);
    let seconds_per_unit = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a duration as 500ms, 5s, 2m or 1h".to_owned()),
    };
    let number: f64 = digits.parse().map_err(|_| "number missing: write e.g. 5s".to_owned())?;
    match Duration::try_from_secs_f64(number * seconds_per_unit) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err("the duration must be positive and finite".to_owned()),
    }
}

fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()))
}

/// Bytes with three digits: `1.23 MB`.
pub(crate) fn human_bytes(bytes: u64) -> String {
    human(bytes, &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)])
}

/// A count with three digits: `1.23 M`.
pub(crate) fn human_count(count: u64) -> String {
    human(count, &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)])
}

fn human(value: u64, units: &[(&str, u64)]) -> String {
    let (unit, size) = units.iter().rev().find(|(_, size)| value >= *size).unwrap_or(&units[0]);
    if *size == 1 {
        return format!("{value} {unit}").trim_end().to_owned();
    }
    #[expect(clippy::cast_precision_loss, reason = "three digits for people")]
    let scaled = value as f64 / *size as f64;
    let digits = if scaled < 10.0 { 2 } else { usize::from(scaled < 100.0) };
    format!("{scaled:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size_kb("512K"), Ok(512));
        assert_eq!(parse_size_kb("8MiB"), Ok(8192));
        assert_eq!(parse_size_kb("1g"), Ok(1 << 20));
        for bad in ["8", "M", "-1M", "0K", "99999999999999999999G", "8X", "1.5M"] {
            assert!(parse_size_kb(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "s", "0", "-1s", "5 fortnights", "infs", "NaN", "1e400s"] {
            assert!(parse_duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn people_read_three_digits() {
        assert_eq!(human_bytes(999), "999 B");
        assert_eq!(human_bytes(1_234_567), "1.23 MB");
        assert_eq!(human_count(45_678), "45.7 k");
        assert_eq!(human_count(0), "0");
    }
}
