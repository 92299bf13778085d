//! `xl info`.

use serde::{Deserialize, Serialize};

/// How fast the TSC runs, as far as Xen knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuHz {
    /// Ticks per second.
    pub hz: u64,
    /// Where the number comes from.
    pub source: String,
    /// How far off it may be by being written in whole kHz, parts per million. How well Xen measured it at boot is
    /// not in this: the recording's own clock evidence is better.
    pub rounding_ppm: f64,
}

/// What `xl info` says that a recording needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// `xen_scheduler`.
    pub scheduler: String,
    /// `xen_commandline`.
    pub command_line: String,
    /// One more than `max_cpu_id`.
    pub cpu_count: u32,
    /// `cpu_mhz`. It is the same `cpu_khz` that Xen prints at boot ("Detected … MHz processor"), but
    /// that line is gone once Xen's console ring has wrapped.
    pub cpu_hz: CpuHz,
}

/// Reads it. What is missing stays empty or 0.
pub fn info(text: &str) -> Info {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key).then(|| value.trim())
        });
        line.unwrap_or_default()
    };
    let source = "xl info cpu_mhz";
    let unknown = || CpuHz { hz: 0, source: source.to_owned(), rounding_ppm: 0.0 };
    let cpu_hz = khz(value("cpu_mhz")).and_then(|khz| cpu_hz(khz, source)).unwrap_or_else(unknown);
    Info {
        scheduler: value("xen_scheduler").to_owned(),
        command_line: value("xen_commandline").to_owned(),
        cpu_count: value("max_cpu_id").parse::<u32>().map_or(0, |last| last.saturating_add(1)),
        cpu_hz,
    }
}

/// A rate in whole kHz, as Xen prints it; none if that is 0 or beyond 64 bits of Hz.
pub(super) fn cpu_hz(khz: u64, source: &str) -> Option<CpuHz> {
    let hz = khz.checked_mul(1000).filter(|hz| *hz > 0)?;
    #[expect(clippy::cast_precision_loss, reason = "an error bound of a few digits")]
    let rounding_ppm = 1000.0 / hz as f64 * 1e6;
    Some(CpuHz { hz, source: source.to_owned(), rounding_ppm })
}

/// `2596.139`; with fewer digits the rest are zeros.
pub(super) fn khz(mhz: &str) -> Option<u64> {
    let (whole, fraction) = mhz.split_once('.').unwrap_or((mhz, ""));
    let fraction = format!("{fraction:0<3}");
    let (whole, fraction) = (whole.parse::<u64>().ok()?, fraction.get(..3)?.parse::<u64>().ok()?);
    whole.checked_mul(1000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_answer_is_read() {
        let read = info(include_str!("../../testdata/xl-info.txt"));
        assert_eq!(read.scheduler, "credit2");
        assert_eq!(read.cpu_count, 1);
        assert_eq!(read.cpu_hz.hz, 999_999_000);
        assert!((read.cpu_hz.rounding_ppm - 1.0).abs() < 0.01);
        assert!(read.command_line.starts_with("console=com1"), "{}", read.command_line);
    }

    #[test]
    fn what_is_missing_is_empty() {
        assert_eq!(info("").cpu_hz.hz, 0);
        assert_eq!(info("cpu_mhz : fast\nmax_cpu_id : x\n").cpu_count, 0);
        assert_eq!(khz("2000.5"), Some(2_000_500));
        assert_eq!(khz("2000"), Some(2_000_000));
    }
}
