//! What a periodic guest says about itself, window by window.

use anyhow::{Context, Result};

/// One window (by default a second) of the `periodic` workload, in microseconds of the guest's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Wakes in the window.
    pub wakes: u64,
    /// Periods that went by while the task was still late from an earlier one.
    pub missed: u64,
    /// From due time to being on the CPU: median.
    pub late_p50_us: u64,
    /// The same, 99th percentile.
    pub late_p99_us: u64,
    /// The same, worst.
    pub late_max_us: u64,
    /// From due time to the work's end: median.
    pub done_p50_us: u64,
    /// The same, 99th percentile.
    pub done_p99_us: u64,
}

impl Lateness {
    /// Reads every window out of a guest's marks.
    pub fn all_in(marks: &str) -> Result<Vec<Self>> {
        marks.lines().filter(|line| line.contains(": lateness ")).map(Self::parse).collect()
    }

    /// `… lateness n=99 missed=0 late_us p50=81 p90=120 p99=300 max=400 done_us p50=600 p99=900 max=1000`
    fn parse(line: &str) -> Result<Self> {
        let value = |group: &str, key: &str| -> Result<u64> {
            let (_, rest) =
                line.split_once(group).with_context(|| format!("no {group} in '{line}'"))?;
            let mut words = rest.split_whitespace().filter_map(|word| word.split_once('='));
            let (_, number) = words
                .find(|(name, _)| *name == key)
                .with_context(|| format!("no {key} in '{line}'"))?;
            number.parse().with_context(|| format!("{key} in '{line}'"))
        };
        Ok(Self {
            wakes: value("lateness", "n")?,
            missed: value("lateness", "missed")?,
            late_p50_us: value("late_us", "p50")?,
            late_p99_us: value("late_us", "p99")?,
            late_max_us: value("late_us", "max")?,
            done_p50_us: value("done_us", "p50")?,
            done_p99_us: value("done_us", "p99")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workloads_line_is_read() {
        let marks = "transect-guest: ready\ntransect-guest: lateness n=99 missed=2 late_us p50=81 p90=120 p99=300 \
                     max=400 done_us p50=600 p99=900 max=1000\n";
        let all = Lateness::all_in(marks).unwrap();
        let expected = Lateness {
            wakes: 99,
            missed: 2,
            late_p50_us: 81,
            late_p99_us: 300,
            late_max_us: 400,
            done_p50_us: 600,
            done_p99_us: 900,
        };
        assert_eq!(all, [expected]);
        assert!(Lateness::all_in("x: lateness n=1\n").is_err());
    }
}
