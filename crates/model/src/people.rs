//! Numbers and errors as people read them, where no table is.

use std::error::Error;

/// Bytes with three digits: `1.23 MB`.
pub fn human_bytes(bytes: u64) -> String {
    human(bytes, &[("B", 1), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000)])
}

/// A count with three digits: `1.23 M`.
pub fn human_count(count: u64) -> String {
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

/// The error and its causes. Libraries name the cause in their own text (their users may not walk
/// the chain), so a cause that is already in the line is not repeated.
pub fn one_line(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let cause = error.to_string();
        if !line.contains(&cause) {
            line = format!("{line}: {cause}");
        }
        next = error.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_three_digits() {
        assert_eq!(human_bytes(999), "999 B");
        assert_eq!(human_bytes(1_234_567), "1.23 MB");
        assert_eq!(human_count(45_678), "45.7 k");
        assert_eq!(human_count(0), "0");
    }
}
