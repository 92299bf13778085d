//! `/proc/meminfo` and `/proc/vmstat`.

use super::line::lines;
use transect_bench_core::samples::MemoryCounts;

/// `MemTotal` and `MemAvailable`, bytes; 0 where missing.
#[must_use]
pub fn meminfo(text: &[u8]) -> (u64, u64) {
    let of = |key: &str| {
        lines(text)
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
            .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok())
            .map_or(0, |kilobytes| kilobytes.saturating_mul(1024))
    };
    (of("MemTotal"), of("MemAvailable"))
}

/// The counters wanted of `/proc/vmstat`.
///
/// `pgscan_anon` and `pgscan_file` (Linux 5.8) count the control groups' reclaim too, `pgscan_direct` only the
/// machine's (mm/vmscan.c `shrink_inactive_list`); older kernels have only the latter.
#[must_use]
pub fn vmstat(text: &[u8]) -> MemoryCounts {
    let mut counts = MemoryCounts::default();
    let (mut by_kind, mut by_caller) = (0_u64, 0_u64);
    for line in lines(text) {
        let Some((key, Ok(value))) = line.split_once(' ').map(|(key, value)| (key, value.parse()))
        else {
            continue;
        };
        let target = match key {
            "pgmajfault" => &mut counts.major_faults,
            "pswpin" => &mut counts.swapped_in,
            "pswpout" => &mut counts.swapped_out,
            "workingset_refault_anon" | "workingset_refault_file" | "workingset_refault" => {
                &mut counts.refaulted
            }
            "pgscan_anon" | "pgscan_file" => &mut by_kind,
            "pgscan_direct" | "pgscan_kswapd" => &mut by_caller,
            _ => continue,
        };
        *target = target.saturating_add(value);
    }
    counts.scanned = by_kind.max(by_caller);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_real_machine() {
        let text =
            b"MemTotal:       24684084 kB\nMemFree: 22045108 kB\nMemAvailable:   23629176 kB\n";
        assert_eq!(meminfo(text), (24_684_084 * 1024, 23_629_176 * 1024));
        let text = b"pgmajfault 3903\npswpin 1\npswpout 2\nworkingset_refault_anon 4\nworkingset_refault_file 10\n\
            pgscan_kswapd 5\npgscan_direct 6\npgscan_direct_throttle 9\npgscan_anon 100\npgscan_file 7\n";
        let expected = MemoryCounts {
            major_faults: 3903,
            swapped_in: 1,
            swapped_out: 2,
            scanned: 107,
            refaulted: 14,
        };
        assert_eq!(vmstat(text), expected);
    }
}
