//! Counting in the kernel beside what the kernel itself counts of the same thread.
//!
//! Some kernels run no program while certain threads are current (see `interrupts.rs`): a waking by an
//! interrupt that hits one is not seen, nor is the switch away from it. Such waits are told as uncounted.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]
#![allow(unsafe_code, reason = "what the kernel counts of a thread")]

use crate::host::support::{Busy, Load, is_skipped};
use std::{
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    time::Duration,
};
use transect_bpf::{Aggregate, Compact, Plan};

/// Of this thread, so far: how often it gave its CPU away, and how often it was taken from it.
fn switches() -> (u64, u64) {
    // SAFETY: a zeroed structure is a valid one, and the call writes it only.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
        usage
    };
    (usage.ru_nvcsw.cast_unsigned(), usage.ru_nivcsw.cast_unsigned())
}

/// One test at a time: the busy CPU of one would hide from another what an idle one does.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a round came to: waits that were counted, waits that were not, and both as the kernel counts them.
#[derive(Debug)]
struct Round {
    counted: u64,
    uncounted: u64,
    switches: u64,
}

/// Programs that count only a thread which does `work`, so many rounds of it.
fn rounds(most: usize, work: fn()) -> Vec<Round> {
    let load = Load::start();
    let plan = Plan {
        filters: load.only(),
        aggregates: vec![Aggregate::RunQueueLatency],
        ..Plan::of(&[])
    };
    let mut compact = Compact::load(&plan).unwrap();
    compact.attach().unwrap();
    // From here on it waits for orders, and each of its waits begins and ends while the programs run.
    load.run(|| {});
    let now = |compact: &Compact| {
        let aggregates = compact.aggregates().unwrap();
        let ours = aggregates.run_queue.get(&std::process::id()).cloned().unwrap_or_default();
        assert_eq!(ours.buckets.iter().sum::<u64>(), ours.count);
        assert!(ours.count == 0 || ours.total_ns > 0);
        (ours.count, aggregates.uncounted)
    };
    let mut rounds: Vec<Round> = Vec::new();
    while rounds.len() < most && rounds.last().is_none_or(|round| round.uncounted > 0) {
        let before = now(&compact);
        let (say, hear) = mpsc::channel();
        load.run(move || {
            let (gave, lost) = switches();
            work();
            let after = switches();
            say.send(after.0 - gave + after.1 - lost).unwrap();
        });
        let after = now(&compact);
        rounds.push(Round {
            counted: after.0 - before.0,
            uncounted: after.1 - before.1,
            switches: hear.recv().unwrap(),
        });
    }
    compact.detach();
    assert_eq!(compact.stats().bytes(), 0, "nothing is recorded");
    rounds
}

/// Whoever leaves a CPU waits for one before he goes on: none of these waits is passed over.
fn none_is_missing(rounds: &[Round]) {
    println!("{rounds:?}");
    for round in rounds {
        assert!(round.switches > 0, "{rounds:?}");
        assert!(round.counted + round.uncounted >= round.switches, "{rounds:?}");
    }
    assert_eq!(rounds.last().map(|round| round.uncounted), Some(0), "one round seen whole");
}

fn sleep() {
    for _ in 0..100 {
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn waits_for_a_cpu_are_counted_in_the_kernel() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    none_is_missing(&rounds(50, sleep));
}

#[test]
fn waits_for_a_cpu_that_another_thread_has_are_counted() {
    if is_skipped() {
        return;
    }
    let _alone = alone();
    let _busy = Busy::start();
    none_is_missing(&rounds(50, sleep));
}

#[test]
fn waits_of_a_thread_whose_cpu_is_taken_from_it_are_counted() {
    fn compute() {
        let before = switches().1;
        while switches().1 - before < 10 {
            std::hint::spin_loop();
        }
    }
    if is_skipped() {
        return;
    }
    let _alone = alone();
    let _busy = Busy::start();
    none_is_missing(&rounds(50, compute));
}
