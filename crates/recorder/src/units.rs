//! Sizes and durations as people write them.

use std::time::Duration;
use transect_model::people::human_bytes;

/// Parses `512K`, `8M`, `1G`, `1T` to KiB. A bare number is refused: other tools disagree what it means.
///
/// # Errors
/// It is no size.
pub fn parse_size_kb(text: &str) -> Result<u64, String> {
    if text.trim().ends_with(|c: char| c.is_ascii_digit()) {
        return Err("write a size with its unit: 512K, 8M, 1G".to_owned());
    }
    match transect_ask::memory::parse_bytes(text)? / 1024 {
        0 => Err("out of range: the minimum is 1K".to_owned()),
        kb => Ok(kb),
    }
}

/// Checks that buffers of this many KiB for each CPU can be in memory.
///
/// # Errors
/// All together they are more than this machine has.
pub fn check_memory(kb_per_cpu: u64, cpus: u64, memory_kb: u64) -> anyhow::Result<()> {
    if kb_per_cpu.checked_mul(cpus).is_none_or(|kb| kb > memory_kb) {
        let bytes = |kb: u64| human_bytes(kb.saturating_mul(1024));
        anyhow::bail!(
            "--buffer-size: buffers of {} for each of {cpus} CPUs exceed the memory of this machine, {}: choose a smaller size",
            bytes(kb_per_cpu),
            bytes(memory_kb)
        );
    }
    Ok(())
}

/// Parses `500ms`, `5s`, `1.5s`, `2m`, `1h`; a bare number is seconds.
///
/// # Errors
/// It is no duration, or a useless one.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size_kb("512K"), Ok(512));
        assert_eq!(parse_size_kb("8MiB"), Ok(8192));
        assert_eq!(parse_size_kb("1g"), Ok(1 << 20));
        assert_eq!(parse_size_kb("1T"), Ok(1 << 30));
        for bad in ["8", "M", "-1M", "0K", "99999999999999999999G", "8X", "1.5M"] {
            assert!(parse_size_kb(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn buffers_beyond_memory_are_refused() {
        assert!(check_memory(1 << 20, 4, 4 << 20).is_ok());
        let error = check_memory(1 << 30, 2, 4 << 20).unwrap_err().to_string();
        assert!(error.contains("of 1.10 TB for each of 2 CPUs exceed the memory"), "{error}");
        assert!(check_memory(u64::MAX, 2, u64::MAX).is_err());
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
}
