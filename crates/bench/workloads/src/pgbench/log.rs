//! Reads pgbench's log of single transactions (`--log`) and its summary. No I/O.
//!
//! A line is `client transaction latency_us script seconds microseconds [schedule_lag [retries]]`; since PostgreSQL 15
//! the latency of one that failed is the word `failed`, and of one that was never begun `skipped` (pgbench(1),
//! "Per-Transaction Logging").

/// Transactions of one log file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Transactions {
    /// Latencies, ns.
    pub(crate) latencies_ns: Vec<f64>,
    /// Failed or skipped.
    pub(crate) failed: u64,
}

impl Transactions {
    /// Adds the lines of a file; an error names the one that cannot be read.
    pub(crate) fn read(&mut self, log: &str) -> Result<(), String> {
        for line in log.lines() {
            let latency = line.split(' ').nth(2);
            match latency {
                Some("failed" | "skipped") => self.failed += 1,
                Some(microseconds) => {
                    let value: f64 = microseconds
                        .parse()
                        .map_err(|_| format!("pgbench's log has the line \"{line}\""))?;
                    self.latencies_ns.push(value * 1e3);
                }
                None => return Err(format!("pgbench's log has the line \"{line}\"")),
            }
        }
        Ok(())
    }
}

/// Transactions a second, without the time that the connections took: `tps = 123.4 (without initial connection time)`;
/// before PostgreSQL 14 `(excluding connections establishing)`, after a line with `including`.
#[must_use]
pub(crate) fn throughput(summary: &str) -> Option<f64> {
    let lines = summary.lines().filter_map(|line| line.strip_prefix("tps = "));
    let without = |line: &&str| line.contains("without initial") || line.contains("excluding");
    lines.filter(without).find_map(|line| line.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read_with_failures() {
        let mut all = Transactions::default();
        all.read("0 1 1500 0 1700000000 1\n1 1 failed 0 1700000000 2 0\n1 2 250 0 1700000000 3\n")
            .unwrap();
        assert_eq!(all, Transactions { latencies_ns: vec![1.5e6, 2.5e5], failed: 1 });
        assert!(all.read("0 1\n").is_err());
        assert!(all.read("0 1 soon 0 0 0\n").is_err());
    }

    #[test]
    fn throughput_of_old_and_new_versions() {
        let new = "latency average = 0.5 ms\ntps = 1983.25 (without initial connection time)\n";
        assert_eq!(throughput(new), Some(1983.25));
        let old = "tps = 90.0 (including connections establishing)\ntps = 95.5 (excluding connections establishing)\n";
        assert_eq!(throughput(old), Some(95.5));
        assert_eq!(throughput("tps = many"), None);
    }
}
