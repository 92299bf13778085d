//! Numbers and errors as people read them, where no table is.

use std::error::Error;

/// Bytes with three digits: `1.23 MB`.
pub fn human_bytes(bytes: u64) -> String {
    human(bytes, "B", &[("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)])
}

/// A count with three digits: `1.23 M`.
pub fn human_count(count: u64) -> String {
    human(count, "", &[("k", 1e3), ("M", 1e6), ("G", 1e9)])
}

fn human(value: u64, one: &str, units: &[(&str, f64)]) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits for people")]
    let exact = value as f64;
    // 999.5 of a unit would be printed as 1000 of it, so the next one takes over from there.
    match units.iter().rev().find(|(_, size)| exact >= size * 0.9995) {
        Some((unit, size)) => format!("{} {unit}", three_digits(exact / size)),
        None => format!("{value} {one}").trim_end().to_owned(),
    }
}

/// A number that is not negative, with three digits, or all that it has before the point.
fn three_digits(value: f64) -> String {
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$}")
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
        assert_eq!(human_bytes(9_996), "10.0 kB");
        assert_eq!(human_bytes(999_499), "999 kB");
        assert_eq!(human_bytes(999_500), "1.00 MB");
        assert_eq!(human_bytes(2_000_000_000_000_000), "2000 TB");
        assert_eq!(human_count(45_678), "45.7 k");
        assert_eq!(human_count(0), "0");
    }
}
