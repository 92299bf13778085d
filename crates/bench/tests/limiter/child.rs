//! A load in a child process, and sampling it.

use crate::load;
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use transect_bench::{
    limiter::{Limiter, LimiterKind, RunFacts, Scene, suspect},
    sampling::{Sampler, Samples, Watch},
};

/// A load that waits, or runs. Killed when dropped.
pub(crate) struct Load {
    child: Child,
    stdin: ChildStdin,
    count: Arc<AtomicU64>,
}

impl Load {
    pub(crate) fn new(spec: &str) -> Self {
        Self::on(spec, None)
    }

    /// On one CPU only.
    pub(crate) fn on(spec: &str, cpu: Option<u32>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "load_of_a_test", "--nocapture", "--test-threads=1"])
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
        let count = Arc::new(AtomicU64::new(0));
        let latest = count.clone();
        std::thread::spawn(move || {
            for line in lines {
                if let Some(Ok(value)) = line.strip_prefix("COUNT ").map(str::parse) {
                    latest.store(value, Ordering::Relaxed);
                }
            }
        });
        Self { child, stdin, count }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn go(&mut self) {
        self.stdin.write_all(b"go\n").unwrap();
    }

    /// How much `count` did in so long, each second.
    pub(crate) fn rate(&self, window: Duration) -> f64 {
        let before = self.count.load(Ordering::Relaxed);
        std::thread::sleep(window);
        (self.count.load(Ordering::Relaxed) - before) as f64 / window.as_secs_f64()
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

/// Samples until the limiter is one of these, three times at most. `None` if the machine was so busy with other things
/// each time that it cannot be known; where it was not, another limiter is a failure.
pub(crate) fn expect(
    name: &str,
    kinds: &[LimiterKind],
    mut observe: impl FnMut() -> (Samples, Limiter),
) -> Option<Limiter> {
    for _ in 0..3 {
        let (samples, limiter) = observe();
        let (kind, held, evidence) = (limiter.kind, limiter.held, &limiter.evidence);
        let cost = 100.0 * samples.own.cpu_ns as f64 / samples.wall_ns as f64;
        println!("{name}: {kind:?} ({held:.2}, sampled for {cost:.1} % of a CPU): {evidence}");
        if kinds.contains(&limiter.kind) {
            return Some(limiter);
        }
        let competition = competition(&samples);
        assert!(competition > 0.1, "{name}: not one of {kinds:?}: {limiter:#?}\n{samples:?}");
        println!("{name}: other programs took {competition:.2} CPUs from it");
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
