//! Control groups, both versions.

use super::line::lines;
use std::collections::BTreeMap;
use transect_bench_core::samples::DiskCounts;

/// A mounted control group hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Which of the hierarchy's folders is mounted here, `/` unless in a container.
    pub root: String,
    /// Where.
    pub point: String,
    /// Version 1 controllers (`cpu`, `memory`); empty for version 2.
    pub controllers: Vec<String>,
}

/// The control group mounts of `/proc/PID/mountinfo`.
#[must_use]
pub fn mounts(text: &[u8]) -> Vec<Mount> {
    lines(text)
        .filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let kind = after.next()?;
            let options = after.nth(1).unwrap_or_default();
            let mut before = before.split(' ').skip(3);
            let (root, point) = (before.next()?.to_owned(), before.next()?.to_owned());
            let controllers = match kind {
                "cgroup2" => Vec::new(),
                "cgroup" => options.split(',').map(str::to_owned).collect(),
                _ => return None,
            };
            Some(Mount { root, point, controllers })
        })
        .collect()
}

/// `/proc/PID/cgroup`: controllers (empty for version 2) and path.
#[must_use]
pub fn group_paths(text: &[u8]) -> Vec<(Vec<String>, String)> {
    lines(text)
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            let controllers =
                controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned);
            Some((controllers.collect(), path.to_owned()))
        })
        .collect()
}

/// A file of `KEY VALUE` lines: `cpu.stat`, `memory.events`.
#[must_use]
pub fn keyed(text: &[u8]) -> BTreeMap<String, u64> {
    lines(text)
        .filter_map(|line| {
            let (key, value) = line.split_once(' ')?;
            Some((key.to_owned(), value.trim().parse().ok()?))
        })
        .collect()
}

/// `cpu.max`: CPUs' worth of quota, `None` for `max`.
#[must_use]
pub fn quota_v2(text: &[u8]) -> Option<f64> {
    let mut words = lines(text).next()?.split_ascii_whitespace().map(str::parse::<f64>);
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    (quota > 0.0 && period > 0.0 && (quota / period).is_finite()).then(|| quota / period)
}

/// A file with one number; `None` for `max`, `-1` and anything else.
#[must_use]
pub fn value(text: &[u8]) -> Option<u64> {
    lines(text).next()?.trim().parse().ok()
}

/// `blkio.throttle.io_service_bytes` and the like (v1): `254:0 Read 4096`, `… Write …` summed over devices.
#[must_use]
pub fn io_service(text: &[u8]) -> (u64, u64) {
    let sum = |of: &str| {
        lines(text).fold(0_u64, |sum, line| {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            match words.as_slice() {
                [_, kind, value] if *kind == of => sum.saturating_add(value.parse().unwrap_or(0)),
                _ => sum,
            }
        })
    };
    (sum("Read"), sum("Write"))
}

/// `io.stat` (v2): `254:0 rbytes=4096 wbytes=0 rios=1 wios=0 …` summed over devices.
#[must_use]
pub fn io_stat_v2(text: &[u8]) -> DiskCounts {
    let mut counts = DiskCounts::default();
    for (key, value) in
        lines(text).flat_map(str::split_ascii_whitespace).filter_map(|word| word.split_once('='))
    {
        let target = match key {
            "rbytes" => &mut counts.read_bytes,
            "wbytes" => &mut counts.written_bytes,
            "rios" => &mut counts.reads,
            "wios" => &mut counts.writes,
            _ => continue,
        };
        *target = target.saturating_add(value.parse().unwrap_or(0));
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hybrid_mounts() {
        let text = b"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:5 - cgroup cgroup rw,cpu,cpuacct\n\
            41 31 0:38 /docker/x /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let mounts = mounts(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts.first().unwrap().controllers, ["rw", "cpu", "cpuacct"]);
        let second = mounts.last().unwrap();
        assert_eq!((second.root.as_str(), second.controllers.len()), ("/docker/x", 0));
    }

    #[test]
    fn groups_of_a_process() {
        let groups = group_paths(b"4:memory:/a:b/c\n1:cpu,cpuacct:/\n0::/init.scope\n");
        assert_eq!(groups.first().unwrap().1, "/a:b/c");
        assert_eq!(groups.get(1).unwrap().0, ["cpu", "cpuacct"]);
        assert!(groups.last().unwrap().0.is_empty());
    }

    #[test]
    fn io_of_both_versions() {
        let v1 = b"254:0 Read 100\n254:0 Write 7\n254:0 Sync 107\n8:0 Read 1\nTotal 108\n";
        assert_eq!(io_service(v1), (101, 7));
        let v2 = io_stat_v2(b"254:0 rbytes=5 wbytes=6 rios=1 wios=2 dbytes=0\n8:0 rbytes=1\n");
        assert_eq!((v2.read_bytes, v2.written_bytes, v2.reads, v2.writes), (6, 6, 1, 2));
    }

    #[test]
    fn limits() {
        assert_eq!(quota_v2(b"50000 100000\n"), Some(0.5));
        assert_eq!(quota_v2(b"max 100000\n"), None);
        assert_eq!(quota_v2(b"1 0\n"), None);
        assert_eq!(value(b"max\n"), None);
        assert_eq!(value(b"4096\n"), Some(4096));
        let stat = keyed(b"nr_periods 10\nnr_throttled 4\nthrottled_usec 77\nbad\n");
        assert_eq!(stat.get("throttled_usec"), Some(&77));
    }
}
