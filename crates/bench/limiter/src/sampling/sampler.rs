//! The thread that samples.

use super::{
    control_group::Groups,
    machine::{self, MachineSources, Rare, Snapshot},
    others::{Others, own_cpu},
    series::{Point, Recorder},
    watch::Tree,
};
use std::{
    fs,
    sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use transect_bench_core::{
    Fault,
    samples::{Frequency, MemoryUse, OwnCost, Pressure, Samples},
};

/// Whom to watch, and how often.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Processes; their threads, children and children's children are watched too, as long as their parents live. On
    /// the host: the VMM. A daemon that detaches itself stays in the tree only if the watched process is a sub-reaper
    /// (`PR_SET_CHILD_SUBREAPER`) or a sample saw it before.
    pub pids: Vec<u32>,
    /// Time between two samples, ms; at least 5.
    pub every_ms: u64,
}

/// A sampler that runs. Dropping it ends it.
#[derive(Debug)]
pub struct Sampler {
    orders: Option<SyncSender<Order>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    Watch(Vec<u32>),
    Begin(SyncSender<()>),
    Finish(SyncSender<Samples>),
}

impl Sampler {
    /// Starts it: opens all files and takes a first sample. What it sees does not count before [`Sampler::begin`].
    ///
    /// # Errors
    /// If no thread can be made. What cannot be read is no error, but in [`Samples::missing`].
    pub fn start(watch: Watch) -> Result<Self, Fault> {
        let (orders, inbox) = sync_channel(4);
        let thread = std::thread::Builder::new()
            .name("bench-sampler".into())
            .spawn(move || Work::new(watch).run(&inbox))
            .map_err(|error| Fault::failed(format_args!("the sampler's thread: {error}")))?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Watches these processes too.
    pub fn watch(&self, pids: &[u32]) {
        if let Some(orders) = &self.orders {
            // It can only fail when the thread is gone, and `finish` says that.
            let _ = orders.send(Order::Watch(pids.to_vec()));
        }
    }

    /// The measured part begins; comes back when the first sample of it is taken.
    ///
    /// # Errors
    /// If the thread is gone.
    pub fn begin(&self) -> Result<(), Fault> {
        self.ask(Order::Begin)
    }

    /// The measured part is over: takes the last sample and ends.
    ///
    /// # Errors
    /// If the thread is gone.
    pub fn finish(mut self) -> Result<Samples, Fault> {
        let samples = self.ask(Order::Finish);
        self.end();
        samples
    }

    fn ask<T>(&self, order: impl FnOnce(SyncSender<T>) -> Order) -> Result<T, Fault> {
        let (reply, answer) = sync_channel(1);
        let sent = self.orders.as_ref().map(|orders| orders.send(order(reply)));
        match (sent, answer.recv()) {
            (Some(Ok(())), Ok(value)) => Ok(value),
            _ => Err(Fault::failed("the sampler's thread has ended; start it again")),
        }
    }

    fn end(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // It ends at the next order or tick; that it panicked is said by whoever asked it.
            let _ = thread.join();
        }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the thread has.
struct Work {
    every: Duration,
    sources: MachineSources,
    tree: Tree,
    others: Others,
    groups: Groups,
    part: Part,
}

/// The measured part so far.
struct Part {
    began: Instant,
    own_cpu: Duration,
    reads: u64,
    first: Snapshot,
    last: Snapshot,
    last_at: Instant,
    last_totals: (u64, u64),
    rare: Rare,
    taken: u64,
    runnable: u64,
    available_min: u64,
    in_flight_max: Vec<(String, u64)>,
    frequency: Option<(u64, u64)>,
    recorder: Recorder,
}

impl Work {
    fn new(watch: Watch) -> Self {
        let every = watch.every_ms.max(5);
        let own_tid = rustix::thread::gettid();
        // What is sampled late is sampled badly. It costs the workload the same CPU time sooner or later.
        let priority = rustix::process::setpriority_process(Some(own_tid), -20);
        let own_tid = u32::try_from(own_tid.as_raw_nonzero().get()).unwrap_or(0);
        let mut sources = MachineSources::open(watch.pids.first().copied());
        if let Err(error) = priority {
            sources.missing.insert("sampler's priority".into(), error.to_string());
        }
        let groups = Groups::new().unwrap_or_else(|error| {
            sources.missing.insert("control groups".into(), error.to_string());
            Groups::default()
        });
        let mut tree = Tree::new(own_tid);
        watch.pids.iter().for_each(|pid| tree.watch(*pid));
        let part = Part::new(&mut sources, every);
        let every = Duration::from_millis(every);
        Self { every, sources, tree, others: Others::new(own_tid), groups, part }
    }

    fn run(mut self, inbox: &Receiver<Order>) {
        self.begin();
        let mut next = Instant::now() + self.every;
        loop {
            match inbox.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Order::Watch(pids)) => pids.into_iter().for_each(|pid| self.tree.watch(pid)),
                Ok(Order::Begin(done)) => {
                    self.begin();
                    next = Instant::now() + self.every;
                    // Who asked may have gone away since.
                    let _ = done.send(());
                }
                Ok(Order::Finish(done)) => {
                    let _ = done.send(self.finish());
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.tick();
                    // A late one is not made up for by several at once.
                    next = (next + self.every).max(Instant::now());
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn begin(&mut self) {
        self.others.begin();
        self.tree.begin();
        for pid in self.tree.found.drain(..) {
            self.groups.notice(pid);
        }
        self.groups.begin();
        let every_ms = u64::try_from(self.every.as_millis()).unwrap_or(u64::MAX);
        self.part = Part::new(&mut self.sources, every_ms);
        self.part.reads = self.reads();
    }

    fn reads(&self) -> u64 {
        self.sources.reads + self.tree.reads + self.others.reads
    }

    fn tick(&mut self) {
        self.tree.tick();
        for pid in self.tree.found.drain(..) {
            self.groups.notice(pid);
        }
        self.others.tick();
        let snapshot = self.sources.snapshot();
        let frequency = self.sources.frequency();
        self.part.add(snapshot, frequency, self.tree.totals());
    }

    fn finish(mut self) -> Samples {
        self.tick();
        let wall = self.part.last_at.duration_since(self.part.began);
        let rare = self.sources.rare();
        let watched = self.tree.end();
        let others = self.others.end(&self.tree);
        let reads = self.reads() - self.part.reads;
        let groups = self.groups.end();
        let own = OwnCost { cpu_ns: ns(own_cpu().saturating_sub(self.part.own_cpu)), reads };
        let mut missing = self.sources.missing;
        missing.append(&mut self.tree.missing);
        if self.tree.is_empty() {
            missing.insert("watched threads".into(), "no process was named".into());
        }
        let part = self.part;
        let mut samples = part.summarise(rare);
        samples.interval_ms = u64::try_from(self.every.as_millis()).unwrap_or(u64::MAX);
        samples.wall_ns = ns(wall);
        (samples.watched, samples.others, samples.groups) = (watched, others, groups);
        (samples.own, samples.missing) = (own, missing);
        samples
    }
}

impl Part {
    fn new(sources: &mut MachineSources, every_ms: u64) -> Self {
        let rare = sources.rare();
        let first = sources.snapshot();
        let now = Instant::now();
        Self {
            began: now,
            own_cpu: own_cpu(),
            reads: sources.reads,
            available_min: first.memory_available,
            runnable: first.runnable,
            in_flight_max: Vec::new(),
            frequency: sources.frequency(),
            last: first.clone(),
            first,
            last_at: now,
            last_totals: (0, 0),
            rare,
            taken: 1,
            recorder: Recorder::new(every_ms),
        }
    }

    fn add(&mut self, now: Snapshot, frequency: Option<(u64, u64)>, totals: (u64, u64)) {
        let at = Instant::now();
        let wall = at.duration_since(self.last_at).as_secs_f64();
        if wall > 0.0 {
            self.recorder.push(point(&self.last, &now, self.last_totals, totals, wall));
        }
        self.taken += 1;
        self.runnable += now.runnable;
        self.available_min = self.available_min.min(now.memory_available);
        for disk in &now.disks {
            match self.in_flight_max.iter_mut().find(|(name, _)| *name == disk.name) {
                Some((_, most)) => *most = (*most).max(disk.in_flight),
                None => self.in_flight_max.push((disk.name.clone(), disk.in_flight)),
            }
        }
        if let (Some((min, max)), Some((now_min, now_max))) = (&mut self.frequency, frequency) {
            (*min, *max) = ((*min).min(now_min), (*max).max(now_max));
        }
        (self.last, self.last_at, self.last_totals) = (now, at, totals);
    }

    fn summarise(self, rare: Rare) -> Samples {
        let (first, last) = (&self.first, &self.last);
        let mut disks = machine::disks(first, last);
        for disk in &mut disks {
            let most = self.in_flight_max.iter().find(|(name, _)| *name == disk.name);
            disk.in_flight_max = most.map_or(0, |(_, most)| *most);
        }
        Samples {
            taken: self.taken,
            cpus: machine::each_cpu(first, last),
            pressure: last
                .pressure
                .zip(first.pressure)
                .map(|(now, then): (Pressure, Pressure)| now.since(&then)),
            kernel: last.counts.since(&first.counts),
            runnable: self.runnable as f64 / self.taken as f64,
            memory: MemoryUse {
                total_bytes: last.memory_total,
                available_min_bytes: self.available_min,
                counts: rare.memory.since(&self.rare.memory),
            },
            disks,
            nics: machine::nics(first, last),
            net: rare.net.since(&self.rare.net),
            frequency: self.frequency.map(|(min_khz, max_khz)| Frequency {
                governor: governor(),
                min_khz,
                max_khz,
            }),
            kvm_exits: rare
                .kvm_exits
                .zip(self.rare.kvm_exits)
                .map(|(now, then)| now.saturating_sub(then)),
            series: self.recorder.finish(),
            ..Samples::default()
        }
    }
}

/// A point of the series, between two snapshots `wall` seconds apart.
fn point(
    then: &Snapshot,
    now: &Snapshot,
    before: (u64, u64),
    after: (u64, u64),
    wall: f64,
) -> Point {
    let share = |ns: u64| ns as f64 / 1e9 / wall;
    let cpus = machine::all_cpus(then, now);
    let pressure = now.pressure.zip(then.pressure).map(|(now, then)| now.since(&then));
    let busiest = now.disks.iter().filter_map(|disk| {
        let before = then.disks.iter().find(|before| before.name == disk.name)?;
        Some(disk.counts.since(&before.counts).busy_ns)
    });
    let carried = now.nics.iter().filter(|(name, _)| name != "lo").filter_map(|(name, counts)| {
        let (_, before) = then.nics.iter().find(|(before, _)| before == name)?;
        let counts = counts.since(before);
        Some(counts.received_bytes + counts.sent_bytes)
    });
    Point {
        busy_cpus: share(cpus.busy()),
        watched_cpus: share(after.0.saturating_sub(before.0)),
        watched_waiting: share(after.1.saturating_sub(before.1)),
        stolen_cpus: share(cpus.steal),
        disk_busy: share(busiest.max().unwrap_or(0)).min(1.0),
        stalled_io: share(pressure.map_or(0, |pressure| pressure.io.some)),
        stalled_memory: share(pressure.map_or(0, |pressure| pressure.memory.some)),
        net_bytes_per_s: carried.sum::<u64>() as f64 / wall,
    }
}

fn governor() -> String {
    fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
        .map_or_else(|error| format!("unknown: {error}"), |text| text.trim().to_owned())
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::{super::parse, *};
    use std::{
        io::{BufRead, BufReader, Write},
        process::{Child, ChildStdout, Command, Stdio},
    };

    /// A shell that does what a script says. It ends when the test does.
    struct Shell {
        child: Child,
        says: BufReader<ChildStdout>,
    }

    impl Shell {
        fn run(script: &str) -> Self {
            let mut command = Command::new("sh");
            let command = command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let says = BufReader::new(child.stdout.take().unwrap());
            Self { child, says }
        }

        fn tell(&mut self) {
            self.child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        }

        fn hear(&mut self, what: &str) {
            let mut line = String::new();
            self.says.read_line(&mut line).unwrap();
            assert_eq!(line.trim(), what);
        }

        /// Begins a measured part.
        fn sampled(&self, every_ms: u64) -> Sampler {
            let sampler = Sampler::start(Watch { pids: vec![self.child.id()], every_ms }).unwrap();
            sampler.begin().unwrap();
            sampler
        }

        /// CPU time that it had or waited for, ns.
        fn wanted_ns(&self) -> u64 {
            let text = fs::read(format!("/proc/{}/schedstat", self.child.id())).unwrap();
            let sched = parse::schedstat(&text).unwrap();
            sched.cpu_ns + sched.wait_ns
        }

        /// CPU time of its children that have ended, and its own, ms.
        fn accounted_ms(&self) -> u64 {
            let text = fs::read(format!("/proc/{}/stat", self.child.id())).unwrap();
            let stat = parse::thread_stat(&text).unwrap();
            (stat.user + stat.system + stat.children) * 1000
                / rustix::param::clock_ticks_per_second()
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    #[test]
    fn sees_a_process_that_spins_and_what_itself_costs() {
        let mut shell = Shell::run("echo up; while :; do :; done");
        shell.hear("up");
        let sampler = shell.sampled(20);
        // Much more than is looked for: should the sampler's CPU stand still, it does not do so all the time.
        let (from, started) = (shell.wanted_ns(), Instant::now());
        while shell.wanted_ns() < from + 1_500_000_000 {
            assert!(started.elapsed() < Duration::from_secs(60), "it does not spin");
            std::thread::sleep(Duration::from_millis(5));
        }
        let samples = sampler.finish().unwrap();
        let watched = samples.watched.as_ref().unwrap();
        assert!(watched.cpu_ns + watched.wait_ns >= 1_500_000_000, "{watched:?}");
        assert!(watched.cpu_ns <= samples.wall_ns * 2, "{watched:?}");
        assert_eq!(watched.threads.first().unwrap().name, "sh");
        assert_eq!(watched.sleeps.asleep(), 0, "{watched:?}");
        assert!(samples.taken >= 3 && !samples.series.is_empty());
        assert!(
            samples.own.cpu_ns > 0 && samples.own.cpu_ns < samples.wall_ns,
            "{:?}",
            samples.own
        );
        assert!(!samples.cpus.is_empty() && samples.kernel.switches > 0);
        let text = serde_json::to_string(&samples).unwrap();
        assert_eq!(serde_json::from_str::<Samples>(&text).unwrap().watched, samples.watched);
    }

    #[test]
    fn short_lived_children_are_accounted_for() {
        let child = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done";
        let mut shell = Shell::run(&format!("while read go; do sh -c '{child}'; echo done; done"));
        // No sample comes while they live.
        let sampler = shell.sampled(3_600_000);
        let from = shell.accounted_ms();
        while shell.accounted_ms() < from + 100 {
            shell.tell();
            shell.hear("done");
        }
        let samples = sampler.finish().unwrap();
        let watched = samples.watched.unwrap();
        let sampled: u64 = watched.threads.iter().map(|thread| thread.cpu_ns).sum();
        assert!(watched.cpu_ns >= sampled);
        assert!(watched.cpu_ns >= 100_000_000, "{watched:?}");
    }

    #[test]
    fn nobody_watched_is_said() {
        let sampler = Sampler::start(Watch::default()).unwrap();
        sampler.begin().unwrap();
        let samples = sampler.finish().unwrap();
        assert!(samples.watched.is_none());
        assert!(samples.missing.contains_key("watched threads"));
    }
}
