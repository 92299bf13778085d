//! Disks.

use crate::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
    view::{View, percent, rate},
};
use transect_bench_core::samples::{DiskUse, GroupUse};

/// Waiting for disks in a machine: share of time, and the disk that was busiest meanwhile.
struct Waiting<'a> {
    held: f64,
    disk: &'a DiskUse,
    busy: f64,
    queue: f64,
    request_bytes: f64,
    per_s: f64,
    latency_ms: f64,
}

impl<'a> Waiting<'a> {
    fn of(view: &View<'a>) -> Option<Self> {
        let disk = view.samples.disks.iter().max_by_key(|disk| disk.counts.busy_ns)?;
        let counts = &disk.counts;
        let requests = counts.reads + counts.writes;
        let all = requests + counts.flushes;
        let each = |sum: u64, of: u64| if of == 0 { 0.0 } else { sum as f64 / of as f64 };
        let busy = view.share(counts.busy_ns).min(1.0);
        let spent = counts.read_ns + counts.write_ns + counts.flush_ns;
        Some(Self {
            held: waited(view, busy),
            disk,
            busy,
            queue: view.share(counts.queue_ns),
            request_bytes: each(counts.read_bytes + counts.written_bytes, requests),
            per_s: view.per_s(all),
            latency_ms: each(spent, all) / 1e6,
        })
    }

    fn is_full(&self) -> bool {
        self.busy >= 0.7 && (self.request_bytes >= 65_536.0 || self.queue >= 4.0)
    }

    fn figures(&self, view: &View<'_>) -> String {
        let counts = &self.disk.counts;
        format!(
            "disk {} busy {} of the time, queue {:.1}: {:.0} requests/s of {:.0} KiB, {:.2} ms each, read {}, written {}, {:.0} flushes/s; waited for {}",
            self.disk.name,
            percent(self.busy),
            self.queue,
            self.per_s,
            self.request_bytes / 1024.0,
            self.latency_ms,
            rate(view.per_s(counts.read_bytes)),
            rate(view.per_s(counts.written_bytes)),
            view.per_s(counts.flushes),
            percent(self.held),
        )
    }
}

/// For how long the workload waited for disks: the thread of it that did so most, else the machine's PSI.
///
/// With deep asynchronous queues no thread sleeps at the disk; then a disk that is busy nearly always while the
/// machine is stalled for it counts too.
pub(super) fn waited(view: &View<'_>, busy: f64) -> f64 {
    let stalled = view.samples.pressure.map_or(0.0, |pressure| view.share(pressure.io.some));
    let stalled = stalled.min(1.0);
    let slept = view
        .threads()
        .iter()
        .filter(|thread| thread.sleeps.all() >= 3)
        .map(|thread| view.slept_at(thread, thread.sleeps.disk))
        .fold(0.0, f64::max);
    let is_async = busy >= 0.9 && stalled >= 0.5;
    match view.watched() {
        None => stalled,
        Some(_) if is_async => slept.max(stalled),
        Some(_) => slept,
    }
}

fn waiting<'a>(scene: &Scene<'a>) -> Vec<(View<'a>, Waiting<'a>)> {
    View::both(scene)
        .into_iter()
        .filter_map(|view| Some((view, Waiting::of(&view)?)))
        .filter(|(_, waiting)| waiting.held >= 0.3)
        .collect()
}

/// See [`super::RULES`].
pub(super) fn bandwidth(scene: &Scene<'_>) -> Vec<Suspect> {
    waiting(scene)
        .iter()
        .filter(|(_, waiting)| waiting.is_full())
        .map(|(view, waiting)| {
            let held = waiting.busy.max(waiting.held);
            view.suspect(LimiterKind::DiskBandwidth, held, waiting.figures(view))
        })
        .collect()
}

/// See [`super::RULES`].
pub(super) fn latency(scene: &Scene<'_>) -> Vec<Suspect> {
    waiting(scene)
        .iter()
        .filter(|(_, waiting)| !waiting.is_full())
        .map(|(view, waiting)| {
            view.suspect(LimiterKind::DiskLatency, waiting.held, waiting.figures(view))
        })
        .collect()
}

/// See [`super::RULES`].
pub(super) fn throttled(scene: &Scene<'_>) -> Vec<Suspect> {
    waiting(scene)
        .iter()
        .filter_map(|(view, waiting)| {
            let (group, limit) = view.samples.groups.iter().find_map(|group| {
                let mut limits = group.io_limits.iter().flat_map(|line| limits(line));
                Some((group, limits.find(|limit| limit.is_reached(view, group))?))
            })?;
            Some(told(view, waiting, group, &limit))
        })
        .collect()
}

fn told(view: &View<'_>, waiting: &Waiting<'_>, group: &GroupUse, limit: &Limit) -> Suspect {
    let evidence = format!(
        "I/O limit {} = {} of {}: read {}, written {}; {}",
        limit.of,
        limit.value,
        group.path,
        rate(view.per_s(group.io.read_bytes)),
        rate(view.per_s(group.io.written_bytes)),
        waiting.figures(view)
    );
    view.suspect(LimiterKind::IoThrottled, waiting.held, evidence)
}

/// One limit of a device.
struct Limit {
    of: String,
    value: u64,
}

impl Limit {
    /// Did the group do about as much as it allows? A limit may be exceeded in bursts, and is not reached in starts.
    fn is_reached(&self, view: &View<'_>, group: &GroupUse) -> bool {
        let counts = &group.io;
        let done = match self.of.as_str() {
            "rbps" => counts.read_bytes,
            "wbps" => counts.written_bytes,
            "riops" => counts.reads,
            "wiops" => counts.writes,
            _ => return false,
        };
        self.value > 0 && (0.7..=1.3).contains(&(view.per_s(done) / self.value as f64))
    }
}

/// The limits of a line: `254:0 rbps=1048576 wiops=max` (v2), or `read_bps_device 254:0 1048576` (v1, with its file).
fn limits(line: &str) -> Vec<Limit> {
    let words: Vec<_> = line.split_ascii_whitespace().collect();
    let v1 = |of: &str, value: &&str| {
        value.parse().map(|value| vec![Limit { of: of.to_owned(), value }]).unwrap_or_default()
    };
    match words.as_slice() {
        ["read_bps_device", _, value] => v1("rbps", value),
        ["write_bps_device", _, value] => v1("wbps", value),
        ["read_iops_device", _, value] => v1("riops", value),
        ["write_iops_device", _, value] => v1("wiops", value),
        [_, rest @ ..] => rest
            .iter()
            .filter_map(|word| {
                let (of, value) = word.split_once('=')?;
                Some(Limit { of: of.to_owned(), value: value.parse().ok()? })
            })
            .collect(),
        [] => Vec::new(),
    }
}
