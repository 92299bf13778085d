//! Values as people write them: sizes, durations, addresses.

use std::time::Duration;

/// A size: `64MiB`, `2GiB`, `4096`.
pub(crate) fn size(text: &str) -> Option<u64> {
    transect_ask::memory::parse_bytes(text).ok()
}

/// A size in the largest unit that says it exactly.
pub(crate) fn size_text(bytes: u64) -> String {
    let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fits = units.iter().find(|(_, shift)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    fits.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

/// A duration: `250us`, `50ms`, `5s`, `15m`, `6h`, `7d`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text.get(digits.len()..)? {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    let number: u64 = digits.trim_end().parse().ok()?;
    number.checked_mul(scale).map(Duration::from_nanos)
}

/// A duration in the largest unit that says it exactly.
pub(crate) fn duration_text(duration: Duration) -> String {
    let ns = duration.as_nanos();
    let units: [(&str, u128); 6] = [
        ("d", 86_400_000_000_000),
        ("h", 3_600_000_000_000),
        ("m", 60_000_000_000),
        ("s", 1_000_000_000),
        ("ms", 1_000_000),
        ("us", 1_000),
    ];
    // A day is 24 h to most people.
    let fits = units.iter().skip(usize::from(ns == 86_400_000_000_000));
    let fits = fits.into_iter().find(|(_, scale)| ns > 0 && ns.is_multiple_of(*scale));
    fits.map_or_else(|| format!("{ns}ns"), |(unit, scale)| format!("{}{unit}", ns / scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_there_and_back() {
        for (text, bytes) in [("2GiB", 2 << 30), ("64MiB", 64 << 20), ("17", 17), ("3KiB", 3072)] {
            assert_eq!(size(text), Some(bytes));
            assert_eq!(size_text(bytes), text);
        }
        for bad in ["", "GiB", "-1", "1.5G", "1 parsec", "99999999999999999999", "20000000TiB"] {
            assert_eq!(size(bad), None, "{bad}");
        }
        for (text, ns) in [("50ms", 50_000_000), ("5s", 5_000_000_000), ("24h", 86_400_000_000_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_nanos(ns)));
            assert_eq!(duration_text(Duration::from_nanos(ns)), text);
        }
        for bad in ["", "5", "s", "-5s", "1.5s", "5 fortnights", "999999999999d"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
