//! A load in a child process, and sampling it.

use super::{load, stops::Stops};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};
use transect_bench_core::samples::Samples;
use transect_bench_limiter::{
    Limiter, LimiterKind, RunFacts, Scene,
    sampling::{Sampler, Watch},
    suspect,
};

/// A load that waits, or runs. Killed when dropped.
pub(crate) struct Load {
    child: Child,
    stdin: ChildStdin,
    says: Receiver<String>,
}

/// What `count` did in a while.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Each second.
    pub(crate) rate: f64,
    /// CPUs that it had.
    pub(crate) cpus: f64,
    /// Each second that it had a CPU: how fast that is.
    pub(crate) speed: f64,
}

/// How far `count` was, and when.
#[derive(Clone, Copy)]
struct Count {
    done: u64,
    at_ns: u64,
    cpu_ns: u64,
}

impl Count {
    fn of(line: &str) -> Option<Self> {
        let mut numbers = line.strip_prefix("COUNT ")?.split(' ').map(|word| word.parse().unwrap());
        let mut next = || numbers.next().unwrap();
        Some(Self { done: next(), at_ns: next(), cpu_ns: next() })
    }
}

impl Load {
    pub(crate) fn new(spec: &str) -> Self {
        Self::on(spec, None)
    }

    /// On one CPU only.
    pub(crate) fn on(spec: &str, cpu: Option<u32>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "slow::limiter::load_of_a_test", "--nocapture", "--test-threads=1"])
            .env(load::VARIABLE, spec)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(cpu) = cpu {
            command.env("TRANSECT_BENCH_CPU", cpu.to_string());
        }
        command.process_group(0);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("READY")), "the load ended: {spec}");
        let (send, says) = channel();
        // Until nobody listens any more, or there is nothing more to hear.
        std::thread::spawn(move || {
            lines.map(|line| send.send(line)).take_while(Result::is_ok).count()
        });
        Self { child, stdin, says }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn go(&mut self) {
        self.stdin.write_all(b"go\n").unwrap();
        while self.hear() != "RUNS" {}
    }

    fn hear(&self) -> String {
        self.says
            .recv_timeout(Duration::from_secs(30))
            .unwrap_or_else(|why| panic!("the load says nothing: {why}"))
    }

    /// What `count` does from now on, for so long at least, by its own clock.
    pub(crate) fn pace(&self, window: Duration) -> Pace {
        let from = self.count_at(load::monotonic_ns());
        let to = self.count_at(from.at_ns + u64::try_from(window.as_nanos()).unwrap());
        let seconds = |from: u64, to: u64| Duration::from_nanos(to - from).as_secs_f64();
        let (done, cpu) = ((to.done - from.done) as f64, seconds(from.cpu_ns, to.cpu_ns));
        let wall = seconds(from.at_ns, to.at_ns);
        Pace { rate: done / wall, cpus: cpu / wall, speed: done / cpu }
    }

    /// What it says at that time, or as soon as it does after.
    fn count_at(&self, at_ns: u64) -> Count {
        loop {
            match Count::of(&self.hear()) {
                Some(count) if count.at_ns >= at_ns => return count,
                _ => {}
            }
        }
    }

    /// Samples it while it runs.
    pub(crate) fn sample(&self, millis: u64) -> Samples {
        let sampler = self.sampler();
        sampler.begin().unwrap();
        std::thread::sleep(Duration::from_millis(millis));
        sampler.finish().unwrap()
    }

    pub(crate) fn sampler(&self) -> Sampler {
        Sampler::start(Watch { pids: vec![self.pid()], every_ms: 20 }).unwrap()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // With what it started itself.
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Starts a load and samples it, when it has run for a while.
pub(crate) fn observe(spec: &str) -> Samples {
    let mut load = Load::new(spec);
    load.go();
    std::thread::sleep(Duration::from_millis(150));
    load.sample(1200)
}

pub(crate) fn limiter_of(machine: &Samples) -> Limiter {
    let facts = RunFacts::default();
    suspect(&Scene { machine, host: None, generator: None, facts: &facts })
}

/// CPUs that others had while the load's threads waited for one: what a busy machine does to a test.
fn competition(samples: &Samples) -> f64 {
    let (own, waited) =
        samples.watched.as_ref().map_or((0, 0), |watched| (watched.cpu_ns, watched.wait_ns));
    let busy: u64 = samples.cpus.iter().map(|cpu| cpu.times.busy()).sum();
    let stolen: u64 = samples.cpus.iter().map(|cpu| cpu.times.steal).sum();
    (waited.min(busy.saturating_sub(own)) + stolen) as f64 / samples.wall_ns as f64
}

/// Samples until the limiter is one of these, three times at most. `None` if the machine was so busy with other things, or
/// stood still, each time that it cannot be known; where it was not, another limiter is a failure.
pub(crate) fn expect(
    name: &str,
    kinds: &[LimiterKind],
    mut observe: impl FnMut() -> (Samples, Limiter),
) -> Option<Limiter> {
    for _ in 0..3 {
        let stops = Stops::watch();
        let (samples, limiter) = observe();
        let missed = stops.end().as_secs_f64() * 1e9 / samples.wall_ns as f64;
        let (kind, held, evidence) = (limiter.kind, limiter.held, &limiter.evidence);
        let cost = 100.0 * samples.own.cpu_ns as f64 / samples.wall_ns as f64;
        println!("{name}: {kind:?} ({held:.2}, sampled for {cost:.1} % of a CPU): {evidence}");
        if kinds.contains(&limiter.kind) {
            return Some(limiter);
        }
        let competition = competition(&samples);
        assert!(
            competition > 0.1 || missed > 0.1,
            "{name}: not one of {kinds:?}: {limiter:#?}\n{samples:?}"
        );
        println!("{name}: other programs took {competition:.2} CPUs from it, stops {missed:.2}");
    }
    println!("skipped: {name}: this machine is too busy");
    None
}

/// A load alone, sampled once it has run for a while.
pub(crate) fn expect_of(spec: &str, kinds: &[LimiterKind]) -> Option<Limiter> {
    expect(spec, kinds, || seen(observe(spec)))
}

/// With its limiter.
pub(crate) fn seen(samples: Samples) -> (Samples, Limiter) {
    let limiter = limiter_of(&samples);
    (samples, limiter)
}
