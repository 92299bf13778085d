//! `/proc/stat` and PSI.

use super::line::{column, lines, numbers};
use transect_bench_core::samples::{CpuTimes, CpuUse, KernelCounts, Stall};

/// What `/proc/stat` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Every CPU on line.
    pub cpus: Vec<CpuUse>,
    /// Counts.
    pub counts: KernelCounts,
    /// Runnable tasks at this moment.
    pub runnable: u64,
}

/// Reads `/proc/stat` (fs/proc/stat.c); `hz` is `USER_HZ`.
#[must_use]
pub fn stat(text: &[u8], hz: u64) -> Stat {
    let tick_ns = 1_000_000_000 / hz.max(1);
    let mut stat = Stat::default();
    for line in lines(text) {
        let Some((key, rest)) = line.split_once(' ') else { continue };
        let first = || rest.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
        match key {
            "ctxt" => stat.counts.switches = first().unwrap_or(0),
            // The line goes on with hundreds of columns; only its total is wanted.
            "intr" => stat.counts.interrupts = first().unwrap_or(0),
            "processes" => stat.counts.forks = first().unwrap_or(0),
            "procs_running" => stat.runnable = first().unwrap_or(0),
            _ => {
                let Some(Ok(cpu)) = key.strip_prefix("cpu").map(str::parse) else { continue };
                stat.cpus.push(CpuUse { cpu, times: times(&numbers(rest), tick_ns) });
            }
        }
    }
    stat
}

/// Columns: user nice system idle iowait irq softirq steal guest guest_nice.
fn times(ticks: &[u64], tick_ns: u64) -> CpuTimes {
    let ns = |index| column(ticks, index).saturating_mul(tick_ns);
    CpuTimes {
        user: ns(0).saturating_add(ns(1)),
        system: ns(2),
        idle: ns(3),
        iowait: ns(4),
        irq: ns(5),
        softirq: ns(6),
        steal: ns(7),
        guest: ns(8).saturating_add(ns(9)),
    }
}

/// Reads a PSI file: `some avg10=… total=MICROSECONDS` and `full …`. `None` if it is none.
#[must_use]
pub fn pressure(text: &[u8]) -> Option<Stall> {
    let mut stall = None;
    for line in lines(text) {
        let Some(total) = line.rsplit_once("total=").and_then(|(_, us)| us.trim().parse().ok())
        else {
            continue;
        };
        let ns = u64::saturating_mul(total, 1000);
        let stall = stall.get_or_insert_with(Stall::default);
        match line.split(' ').next() {
            Some("some") => stall.some = ns,
            Some("full") => stall.full = ns,
            _ => {}
        }
    }
    stall
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &[u8] = b"cpu  8241 104837 7854 66301 1090 0 162 38 0 0\n\
        cpu0 3057 52457 3394 35187 170 0 23 17 5 1\n\
        cpu11 5184 52379 4459 31113 920 0 138 21 0 0\n\
        intr 647463 0 0 1 14\nctxt 801330\nbtime 1795331186\nprocesses 13678\nprocs_running 3\nprocs_blocked 0\n\
        softirq 326074 0 34981\n";

    #[test]
    fn stat_of_two_cpus() {
        let stat = stat(STAT, 100);
        assert_eq!(stat.cpus.iter().map(|cpu| cpu.cpu).collect::<Vec<_>>(), [0, 11]);
        let first = stat.cpus.first().unwrap().times;
        assert_eq!(first.user, (3057 + 52457) * 10_000_000);
        assert_eq!(first.steal, 170_000_000);
        assert_eq!(first.guest, 60_000_000);
        assert_eq!(first.iowait, 1_700_000_000);
        let counts = KernelCounts { switches: 801_330, interrupts: 647_463, forks: 13_678 };
        assert_eq!(stat.counts, counts);
        assert_eq!(stat.runnable, 3);
    }

    #[test]
    fn psi_with_and_without_full() {
        let text = b"some avg10=4.37 avg60=6.94 avg300=6.60 total=60315191\n\
            full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(pressure(text), Some(Stall { some: 60_315_191_000, full: 7000 }));
        // Before Linux 5.13 cpu had no `full`.
        let old = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
        assert_eq!(pressure(old), Some(Stall { some: 5000, full: 0 }));
        assert_eq!(pressure(b"Operation not supported\n"), None);
    }
}
