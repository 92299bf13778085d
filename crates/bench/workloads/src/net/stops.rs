//! For tests: whether CPUs stood still meanwhile, as a virtual machine's do when its host has no time for them. Not every
//! host says so as stolen time.

use rustix::{
    process::setpriority_process,
    thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A thread on each CPU, which sees when it is not let.
pub(crate) struct Stops {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
}

impl Stops {
    pub(crate) fn watch() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let all = sched_getaffinity(None).unwrap();
        let watch = |cpu| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || missed_on(cpu, &is_over))
        };
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| all.is_set(cpu));
        let threads = cpus.map(watch).collect();
        Self { is_over, threads }
    }

    /// For how long the CPU that stood still for longest did.
    pub(crate) fn end(self) -> Duration {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap_or_default()
    }
}

/// How much later than it wanted a thread came back to a CPU, as far as that is more than another thread's turn.
fn missed_on(cpu: usize, is_over: &AtomicBool) -> Duration {
    const EVERY: Duration = Duration::from_millis(5);
    const TURN: Duration = Duration::from_millis(20);
    let mut one = CpuSet::new();
    one.set(cpu);
    sched_setaffinity(None, &one).unwrap();
    // Who may not has to live with others' turns being longer.
    let _ = setpriority_process(Some(gettid()), -20);
    let mut missed = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let from = Instant::now();
        thread::sleep(EVERY);
        let late = from.elapsed().saturating_sub(EVERY);
        missed += if late > TURN { late } else { Duration::ZERO };
    }
    missed
}
