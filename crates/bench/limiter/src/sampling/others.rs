//! Everybody else on the machine: who took the CPUs that the workload waited for.

use super::{
    parse,
    source::Source,
    watch::{self, Tree},
};
use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};
use transect_bench_core::samples::ThreadUse;

/// Scans take at most this part of one CPU: the next one waits for so many times the last one's duration.
const PAUSE: u32 = 200;

/// One thread of somebody else.
#[derive(Debug)]
struct Other {
    pid: u32,
    parent: u32,
    name: String,
    base: (u64, u64),
    last: (u64, u64),
    cpus: Vec<u32>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Others {
    seen: BTreeMap<(u32, u64), Other>,
    own_tid: u32,
    began_at: u64,
    next: Instant,
    hz: u64,
    buffer: Vec<u8>,
    pub(super) reads: u64,
}

impl Others {
    pub(super) fn new(own_tid: u32) -> Self {
        let hz = rustix::param::clock_ticks_per_second();
        Self {
            seen: BTreeMap::new(),
            own_tid,
            began_at: watch::boot_ticks(hz),
            next: Instant::now(),
            hz,
            buffer: Vec::new(),
            reads: 0,
        }
    }

    /// Counts from now on.
    pub(super) fn begin(&mut self) {
        self.began_at = watch::boot_ticks(self.hz);
        self.seen.clear();
        self.scan();
        for other in self.seen.values_mut() {
            other.base = other.last;
        }
    }

    /// Looks again if enough time has gone by. Short-lived threads between two looks are not seen.
    pub(super) fn tick(&mut self) {
        if Instant::now() >= self.next {
            self.scan();
        }
    }

    fn scan(&mut self) {
        let before = own_cpu();
        let Ok(processes) = fs::read_dir("/proc") else { return };
        for pid in processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()) {
            let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for tid in tasks.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()) {
                self.look_at(pid, tid);
            }
        }
        let pause = (own_cpu().saturating_sub(before) * PAUSE).max(Duration::from_millis(500));
        self.next = Instant::now() + pause;
    }

    fn look_at(&mut self, pid: u32, tid: u32) {
        if tid == self.own_tid {
            return;
        }
        self.reads += 1;
        let source = Source::open(format!("/proc/{pid}/task/{tid}/stat"));
        let text = source.as_ref().ok().and_then(|source| source.read(&mut self.buffer).ok());
        let Some(stat) = text.and_then(parse::thread_stat) else { return };
        let now = (stat.user + stat.system, stat.system);
        let base = if stat.started < self.began_at { now } else { (0, 0) };
        let other = self.seen.entry((tid, stat.started)).or_insert_with(|| Other {
            pid,
            parent: stat.parent,
            name: stat.name.clone(),
            base,
            last: now,
            cpus: Vec::new(),
        });
        // Its name may have come with exec; its CPU counts where it ran since the last look.
        other.name = stat.name;
        let ran = other.last.0 < now.0;
        other.last = now;
        if ran && !other.cpus.contains(&stat.cpu) && other.cpus.len() < 8 {
            other.cpus.push(stat.cpu);
        }
    }

    /// The ten that used most CPU and are not in the workload's tree, nor children of it that it never sampled.
    pub(super) fn end(&mut self, tree: &Tree) -> Vec<ThreadUse> {
        self.scan();
        let hz = self.hz;
        let is_other = |id: &(u32, u64), other: &Other| {
            !tree.ever.contains(id) && !tree.ever_pids.contains(&other.parent)
        };
        let mut others: Vec<_> = self
            .seen
            .iter()
            .filter(|(id, other)| is_other(id, other) && other.last.0 > other.base.0)
            .map(|((tid, _), other)| ThreadUse {
                pid: other.pid,
                tid: *tid,
                name: other.name.clone(),
                cpu_ns: watch::ns(other.last.0 - other.base.0, hz),
                system_ns: watch::ns(other.last.1.saturating_sub(other.base.1), hz),
                cpus: other.cpus.clone(),
                ..ThreadUse::default()
            })
            .collect();
        others.sort_by_key(|other| std::cmp::Reverse(other.cpu_ns));
        others.truncate(10);
        others
    }
}

/// CPU time of this thread.
pub(super) fn own_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(now.tv_sec).unwrap_or(0), u32::try_from(now.tv_nsec).unwrap_or(0))
}
