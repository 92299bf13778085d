//! The workload's threads: a tree of processes, sampled one by one.

use super::{
    parse::{self, SchedStat, Sleep, ThreadStat},
    source::Source,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};
use transect_bench_core::samples::{Sleeps, ThreadUse, Watched};

/// The most threads sampled at one time: each costs three open files.
const LIMIT: usize = 256;

/// A thread that is watched.
#[derive(Debug)]
struct Thread {
    pid: u32,
    tid: u32,
    sched: Source,
    stat: Source,
    wchan: Option<Source>,
    children: Option<Source>,
    base: (SchedStat, ThreadStat),
    last: (SchedStat, ThreadStat),
    sleep: Sleep,
    sleeps: Sleeps,
    cpus: Vec<u32>,
    is_alive: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Tree {
    roots: BTreeSet<u32>,
    /// Processes with their accounts.
    processes: BTreeMap<u32, Source>,
    threads: Vec<Thread>,
    /// Threads of the measured part that have ended, and no longer have a place of their own.
    ended: Vec<ThreadUse>,
    base_ticks: u64,
    most_ticks: u64,
    began_at: u64,
    own_tid: u32,
    hz: u64,
    buffer: Vec<u8>,
    pub(super) reads: u64,
    /// Every process and thread that was ever in it, by id and start.
    pub(super) ever: BTreeSet<(u32, u64)>,
    /// Every process that was ever in it.
    pub(super) ever_pids: BTreeSet<u32>,
    /// Processes found since the last look.
    pub(super) found: Vec<u32>,
    pub(super) missing: BTreeMap<String, String>,
    allowed_cpus: Vec<u32>,
}

impl Tree {
    /// `own_tid` is the sampler's thread: it may be in a process that is watched.
    pub(super) fn new(own_tid: u32) -> Self {
        let hz = rustix::param::clock_ticks_per_second();
        Self { own_tid, hz, began_at: boot_ticks(hz), ..Self::default() }
    }

    pub(super) fn watch(&mut self, pid: u32) {
        self.roots.insert(pid);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// CPU time and wait of the live threads since the beginning, ns: for the series.
    pub(super) fn totals(&self) -> (u64, u64) {
        let ended = self.ended.iter().map(|thread| (thread.cpu_ns, thread.wait_ns));
        let alive = self.threads.iter().map(|thread| {
            let (now, base) = (thread.last.0, thread.base.0);
            (now.cpu_ns.saturating_sub(base.cpu_ns), now.wait_ns.saturating_sub(base.wait_ns))
        });
        ended
            .chain(alive)
            .fold((0, 0), |(cpu, wait), (more_cpu, more_wait)| (cpu + more_cpu, wait + more_wait))
    }

    /// The measured part begins now: what was before does not count.
    pub(super) fn begin(&mut self) {
        self.began_at = boot_ticks(self.hz);
        self.tick();
        self.threads.retain(|thread| thread.is_alive);
        self.ended.clear();
        for thread in &mut self.threads {
            thread.base = thread.last.clone();
            (thread.sleeps, thread.cpus) = (Sleeps::default(), Vec::new());
        }
        self.base_ticks = self.accounts();
        self.most_ticks = self.base_ticks;
        self.allowed_cpus = self
            .roots
            .first()
            .and_then(|root| fs::read(format!("/proc/{root}/status")).ok())
            .map(|text| parse::status_cpus(&text))
            .unwrap_or_default();
    }

    /// Takes a sample of each thread, and finds new ones.
    pub(super) fn tick(&mut self) {
        for root in self.roots.clone() {
            self.adopt(root);
        }
        for pid in self.processes.keys().copied().collect::<Vec<_>>() {
            self.find_threads(pid);
        }
        let mut children = Vec::new();
        for thread in &mut self.threads {
            thread.sample(&mut self.buffer, &mut self.reads);
            thread.children(&mut self.buffer, &mut children, &mut self.reads);
        }
        for child in children {
            if self.adopt(child) {
                self.find_threads(child);
            }
        }
        self.most_ticks = self.most_ticks.max(self.accounts());
        self.bury();
    }

    /// Makes a process one of the tree. False if it already was, or is gone.
    fn adopt(&mut self, pid: u32) -> bool {
        if self.processes.contains_key(&pid) {
            return false;
        }
        let Ok(source) = Source::open(format!("/proc/{pid}/stat")) else { return false };
        let Some(stat) = source.read(&mut self.buffer).ok().and_then(parse::thread_stat) else {
            return false;
        };
        if stat.started < self.began_at {
            self.base_ticks += stat.user + stat.system + stat.children;
        }
        self.found.push(pid);
        self.ever_pids.insert(pid);
        self.processes.insert(pid, source);
        true
    }

    fn find_threads(&mut self, pid: u32) {
        let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
            self.processes.remove(&pid);
            return;
        };
        for tid in entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()) {
            let is_known = |thread: &Thread| thread.tid == tid && thread.is_alive;
            if tid == self.own_tid || self.threads.iter().any(is_known) {
                continue;
            }
            if self.threads.len() >= LIMIT {
                let why = format!("only {LIMIT} threads at a time are sampled individually");
                self.missing.insert("more threads".into(), why);
                return;
            }
            if let Some(thread) = Thread::open(pid, tid, self.began_at, &mut self.buffer) {
                self.ever.insert((tid, thread.last.1.started));
                self.threads.push(thread);
            }
        }
    }

    /// The processes' own accounts, with those of children that were waited for: what lived for less than a sample is
    /// in its parent's. Ticks.
    fn accounts(&mut self) -> u64 {
        let mut sum = 0;
        self.processes.retain(|_, source| {
            let stat = source.read(&mut self.buffer).ok().and_then(parse::thread_stat);
            sum += stat.as_ref().map_or(0, |stat| stat.user + stat.system + stat.children);
            stat.is_some()
        });
        self.reads += self.processes.len() as u64;
        sum
    }

    /// Closes the files of threads that have ended.
    fn bury(&mut self) {
        let hz = self.hz;
        let (alive, dead): (Vec<_>, Vec<_>) =
            self.threads.drain(..).partition(|thread| thread.is_alive);
        self.threads = alive;
        self.ended.extend(dead.iter().map(|thread| thread.used(hz)));
    }

    /// What they did since the beginning; `None` if nobody is watched.
    pub(super) fn end(&mut self) -> Option<Watched> {
        if self.roots.is_empty() {
            return None;
        }
        self.tick();
        let mut threads: Vec<_> = self
            .threads
            .iter()
            .map(|thread| thread.used(self.hz))
            .chain(self.ended.clone())
            .collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.cpu_ns + thread.wait_ns));
        let sampled: u64 = threads.iter().map(|thread| thread.cpu_ns).sum();
        let accounted = ns(self.most_ticks.saturating_sub(self.base_ticks), self.hz);
        let mut sleeps = Sleeps::default();
        for thread in &threads {
            sleeps = sleeps.plus(&thread.sleeps);
        }
        let (threads_seen, wait_ns) =
            (threads.len() as u64, threads.iter().map(|thread| thread.wait_ns).sum());
        threads.truncate(Watched::KEPT);
        let allowed_cpus = self.allowed_cpus.clone();
        let cpu_ns = sampled.max(accounted);
        Some(Watched { threads_seen, cpu_ns, wait_ns, sleeps, allowed_cpus, threads })
    }
}

impl Thread {
    fn open(pid: u32, tid: u32, began_at: u64, buffer: &mut Vec<u8>) -> Option<Self> {
        let open = |name: &str| Source::open(format!("/proc/{pid}/task/{tid}/{name}"));
        let (sched, stat) = (open("schedstat").ok()?, open("stat").ok()?);
        let first_stat = parse::thread_stat(stat.read(buffer).ok()?)?;
        let first = (parse::schedstat(sched.read(buffer).ok()?)?, first_stat);
        // One that began in the measured part has done all that it did in it.
        let base = match first.1.started < began_at {
            true => first.clone(),
            false => Default::default(),
        };
        Some(Self {
            pid,
            tid,
            sched,
            stat,
            wchan: open("wchan").ok(),
            children: open("children").ok(),
            base,
            last: first,
            sleep: Sleep::Running,
            sleeps: Sleeps::default(),
            cpus: Vec::new(),
            is_alive: true,
        })
    }

    fn sample(&mut self, buffer: &mut Vec<u8>, reads: &mut u64) {
        *reads += 1;
        let Some(sched) = self.sched.read(buffer).ok().and_then(parse::schedstat) else {
            self.is_alive = false;
            return;
        };
        // It slept then and has had no CPU since: it sleeps where it slept. Two reads saved for idle threads.
        if sched == self.last.0 && self.sleep != Sleep::Running {
            self.count();
            return;
        }
        self.last.0 = sched;
        *reads += 1;
        let Some(stat) = self.stat.read(buffer).ok().and_then(parse::thread_stat) else {
            self.is_alive = false;
            return;
        };
        if matches!(stat.state, 'Z' | 'X') {
            self.last.1 = stat;
            return;
        }
        self.sleep = self.place(stat.state, buffer, reads);
        if !self.cpus.contains(&stat.cpu) && self.cpus.len() < 8 {
            self.cpus.push(stat.cpu);
        }
        self.last.1 = stat;
        self.count();
    }

    fn place(&self, state: char, buffer: &mut Vec<u8>, reads: &mut u64) -> Sleep {
        if state == 'R' {
            return Sleep::Running;
        }
        *reads += 1;
        let text = self.wchan.as_ref().and_then(|wchan| wchan.read(buffer).ok());
        parse::name_of_sleep(&String::from_utf8_lossy(text.unwrap_or_default()), state)
    }

    fn count(&mut self) {
        let sleeps = &mut self.sleeps;
        let counter = match self.sleep {
            Sleep::Running => &mut sleeps.running,
            Sleep::Disk => &mut sleeps.disk,
            Sleep::Lock => &mut sleeps.lock,
            Sleep::Network => &mut sleeps.network,
            Sleep::Timer => &mut sleeps.timer,
            Sleep::Pipe => &mut sleeps.pipe,
            Sleep::Poll => &mut sleeps.poll,
            Sleep::Child => &mut sleeps.child,
            Sleep::Other => &mut sleeps.other,
        };
        *counter += 1;
    }

    fn children(&self, buffer: &mut Vec<u8>, children: &mut Vec<u32>, reads: &mut u64) {
        let Some(source) = &self.children else { return };
        *reads += 1;
        let Ok(text) = source.read(buffer) else { return };
        let text = String::from_utf8_lossy(text);
        children.extend(text.split_ascii_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
    }

    fn used(&self, hz: u64) -> ThreadUse {
        let ((sched, stat), (base, base_stat)) = (&self.last, &self.base);
        ThreadUse {
            pid: self.pid,
            tid: self.tid,
            name: stat.name.clone(),
            cpu_ns: sched.cpu_ns.saturating_sub(base.cpu_ns),
            wait_ns: sched.wait_ns.saturating_sub(base.wait_ns),
            slices: sched.slices.saturating_sub(base.slices),
            guest_ns: ns(stat.guest.saturating_sub(base_stat.guest), hz),
            system_ns: ns(stat.system.saturating_sub(base_stat.system), hz),
            major_faults: stat.major_faults.saturating_sub(base_stat.major_faults),
            sleeps: self.sleeps,
            cpus: self.cpus.clone(),
        }
    }
}

/// Ticks of `USER_HZ` as ns.
pub(super) fn ns(ticks: u64, hz: u64) -> u64 {
    ticks.saturating_mul(1_000_000_000 / hz.max(1))
}

/// Now, in the unit of a thread's start.
pub(super) fn boot_ticks(hz: u64) -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, ns) =
        (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    seconds * hz + ns * hz / 1_000_000_000
}
