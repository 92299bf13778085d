//! The kernel's counters as text.

/// What a control group was held back, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Throttled {
    pub(super) periods: u64,
    pub(super) periods_throttled: u64,
    pub(super) throttled_ns: u64,
}

/// `cpu.stat` of either version: version 2 has µs, version 1 ns. None if the group has no such
/// counters (the controller is not enabled for it).
pub(super) fn cpu_stat(text: &str) -> Option<Throttled> {
    let value = |wanted: &str| {
        text.lines().find_map(|line| {
            line.strip_prefix(wanted)?.strip_prefix(' ')?.trim().parse::<u64>().ok()
        })
    };
    let throttled_us = value("throttled_usec").and_then(|us| us.checked_mul(1000));
    Some(Throttled {
        periods: value("nr_periods")?,
        periods_throttled: value("nr_throttled")?,
        throttled_ns: throttled_us.or_else(|| value("throttled_time"))?,
    })
}

/// A bound of a group's CPU time: so much, in each period; ns.
pub(super) type Limit = (u64, u64);

/// `cpu.max`: `QUOTA PERIOD` in µs, or `max PERIOD`.
pub(super) fn cpu_max(text: &str) -> Option<Limit> {
    let mut words = text.split_whitespace().map(|word| word.parse::<u64>().ok()?.checked_mul(1000));
    Some((words.next()??, words.next()??))
}

/// Version 1: `cpu.cfs_quota_us` (-1: no bound) and `cpu.cfs_period_us`.
pub(super) fn cfs_quota(quota: &str, period: &str) -> Option<Limit> {
    let ns = |text: &str| text.trim().parse::<u64>().ok()?.checked_mul(1000);
    Some((ns(quota)?, ns(period)?))
}

/// Total stall times so far, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stalls {
    pub(super) some_ns: Option<u64>,
    pub(super) full_ns: Option<u64>,
}

/// A pressure file: a line `some …` and, where that means something, `full …`, each with `total=µs`.
pub(super) fn pressure(text: &str) -> Stalls {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.split(' ').next() == Some(kind))?;
        let (_, total) = line.rsplit_once("total=")?;
        total.trim().parse::<u64>().ok()?.checked_mul(1000)
    };
    Stalls { some_ns: total("some"), full_ns: total("full") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_tell_how_long_a_group_was_held_back() {
        let v2 = "usage_usec 4021\nuser_usec 4000\nsystem_usec 21\nnr_periods 50\nnr_throttled 40\n\
                  throttled_usec 1234\nnr_bursts 0\nburst_usec 0\n";
        let wanted = Throttled { periods: 50, periods_throttled: 40, throttled_ns: 1_234_000 };
        assert_eq!(cpu_stat(v2), Some(wanted));
        let v1 =
            "nr_periods 50\nnr_throttled 40\nthrottled_time 1234000\nnr_bursts 0\nburst_time 0\n";
        assert_eq!(cpu_stat(v1), Some(wanted));
        assert_eq!(cpu_stat("usage_usec 5\nuser_usec 5\nsystem_usec 0\n"), None, "not enabled");
        assert_eq!(cpu_stat("nr_periods x\nnr_throttled 1\nthrottled_usec 1\n"), None);
        let huge = "nr_periods 1\nnr_throttled 1\nthrottled_usec 18446744073709551615\n";
        assert_eq!(cpu_stat(huge), None);
    }

    #[test]
    fn bounds_of_cpu_time() {
        assert_eq!(cpu_max("50000 100000\n"), Some((50_000_000, 100_000_000)));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_max(""), None);
        assert_eq!(cfs_quota("25000\n", "100000\n"), Some((25_000_000, 100_000_000)));
        assert_eq!(cfs_quota("-1\n", "100000\n"), None);
    }

    #[test]
    fn pressure_has_full_where_it_means_something() {
        let text = "some avg10=0.22 avg60=0.17 avg300=1.11 total=58761459\n\
                    full avg10=0.22 avg60=0.16 avg300=1.08 total=58\n";
        let stalls = pressure(text);
        assert_eq!((stalls.some_ns, stalls.full_ns), (Some(58_761_459_000), Some(58_000)));
        assert_eq!(pressure("some avg10=0.00 total=5\n").full_ns, None);
        assert_eq!(pressure(""), Stalls::default());
    }
}
