//! For tests of what takes how long: on a virtual machine whose CPUs its host sometimes stops.

use crate::Fault;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// A run in which a CPU was missed for this long does not say how quick anything is.
const MISSED: Duration = Duration::from_millis(100);
/// A run that was disturbed is made again, but not for ever.
const ROUNDS: u32 = 5;

/// Runs something and checks what came of it. If that fails and a CPU stood still meanwhile, it is done again.
pub(crate) fn undisturbed<T>(mut run: impl FnMut() -> Result<T, Fault>, check: impl Fn(&T)) -> T {
    let mut round = 1;
    loop {
        let stops = Stops::watch();
        let result = run();
        let missed = stops.end();
        let checked = catch_unwind(AssertUnwindSafe(|| {
            let value = result.unwrap_or_else(|fault| panic!("{fault}"));
            check(&value);
            value
        }));
        match checked {
            Ok(value) => return value,
            Err(_) if missed >= MISSED && round < ROUNDS => {
                eprintln!("again: a CPU stood still for {missed:?} altogether");
            }
            Err(why) => resume_unwind(why),
        }
        round += 1;
    }
}

/// A thread on each CPU, which sees when it is not let.
struct Stops {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Duration>>,
}

impl Stops {
    fn watch() -> Self {
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
    fn end(self) -> Duration {
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
    let mut missed = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let from = Instant::now();
        thread::sleep(EVERY);
        let late = from.elapsed().saturating_sub(EVERY);
        missed += if late > TURN { late } else { Duration::ZERO };
    }
    missed
}

#[test]
fn what_is_never_good_enough_fails() {
    let mut rounds = 0;
    let run = || {
        rounds += 1;
        Ok(rounds)
    };
    let never = AssertUnwindSafe(|| undisturbed(run, |_| panic!("it is not good enough")));
    assert!(catch_unwind(never).is_err());
    // More than one only where CPUs do stand still.
    assert!((1..=ROUNDS).contains(&rounds), "{rounds}");
    assert_eq!(undisturbed(|| Ok(7), |_| {}), 7);
}
