//! Moments as numbers: `1.25s`, `250ms`, `1250000000`.

/// A number, and whether it has a unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    /// ns, or the recording's own unit.
    pub(super) value: i64,
    /// Written in seconds or parts of them, and not in the recording's own unit.
    pub(super) is_in_seconds: bool,
}

/// Parses a number. A bare one is a `ts` value of tables and SQL: nanoseconds, or ticks.
pub(super) fn parse(text: &str) -> Result<Number, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == 'µ');
    let unit_ns: i128 = match &text[digits.len()..] {
        "" | "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        other => return Err(format!("unknown unit '{other}': use ns, us, ms, s, m or h")),
    };
    let value = exact(digits.trim_end(), unit_ns)?;
    let value = i64::try_from(value).map_err(|_| "too large for a 64-bit time in ns".to_owned())?;
    Ok(Number { value, is_in_seconds: digits.len() < text.len() })
}

/// A decimal number times a unit, to the nanosecond: no detour over a floating-point number, which
/// would lose digits of long recordings.
fn exact(digits: &str, unit_ns: i128) -> Result<i128, String> {
    let wrong = || "not a time such as 1.25s, 250ms or 1250000000".to_owned();
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, digits),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| {
        (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    if !is_number(whole) || !is_number(part) {
        return Err(wrong());
    }
    let number = |text: &str| text.parse::<i128>().map_err(|_| wrong());
    // Up to 20 digits times up to 42 bits: within 128 bits.
    let scale = 10_i128.pow(u32::try_from(part.len()).unwrap_or(20));
    let fraction = number(part)? * unit_ns;
    if fraction % scale != 0 {
        return Err("more precise than a nanosecond".to_owned());
    }
    Ok(sign * (number(whole)? * unit_ns + fraction / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact() {
        let value = |text: &str| parse(text).unwrap().value;
        assert_eq!(value("1.25s"), 1_250_000_000);
        assert_eq!(value("250ms"), 250_000_000);
        assert_eq!(value("123456789012345678"), 123_456_789_012_345_678);
        assert_eq!(value("-3us"), -3_000);
        assert_eq!(value("9223372036.854775807s"), i64::MAX);
        assert_eq!(value("0.000000001 s"), 1);
        assert_eq!(value("1.5m"), 90_000_000_000);
        assert_eq!(value("2µs"), 2_000);
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "s", "1.s", ".5s", "1..2s", "1e9", "--1", "1.2", "0.0000000001s", "5x"] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["9223372036.854775808s", "99999999999999999999h", "999999999999999999999"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
