//! When the consumer takes what is in the logs: few events do not make many blocks, and wait a
//! quarter of a second at most. Without BPF the test says why and passes.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]
#![allow(unsafe_code, reason = "raw system calls of the load")]

use std::{
    io,
    time::{Duration, Instant},
};

use transect_bpf::{Compact, Family, Filters, LogSink, Plan, SyscallMode, can_run};
use transect_model::ids::CpuId;

/// When slices came, and how long they are.
#[derive(Default)]
struct Arrivals(Vec<(Instant, usize)>);

impl LogSink for Arrivals {
    fn slice(&mut self, _: CpuId, _: u8, _: u64, _: u64, _: u64, w: &[u8]) -> io::Result<()> {
        self.0.push((Instant::now(), w.len()));
        Ok(())
    }
}

fn call_getppid(times: u32) {
    for _ in 0..times {
        // SAFETY: no arguments, no effects.
        unsafe { libc::syscall(libc::SYS_getppid) };
    }
}

/// All of this thread's events on the first CPU, so that there is one log.
fn stay_on_cpu_0() -> u32 {
    // SAFETY: a zeroed set is an empty one, CPU 0 is within it, and the call reads it only.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set), 0);
        libc::gettid().cast_unsigned()
    }
}

#[test]
fn what_little_there_is_is_taken_four_times_a_second() {
    if let Err(why) = can_run() {
        println!("skipped: {why}");
        return;
    }
    let plan = Plan {
        filters: Filters { tids: vec![stay_on_cpu_0()], ..Filters::default() },
        syscalls: SyscallMode::Both,
        ..Plan::of(&[Family::Syscalls])
    };
    let mut compact = Compact::load(&plan).unwrap();
    let consumer = compact.consume(Arrivals::default()).unwrap();
    compact.attach().unwrap();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        call_getppid(1);
        std::thread::sleep(Duration::from_millis(10));
    }
    let calm_end = Instant::now();
    // What is worth a block does not wait for its turn, but for the next look.
    for _ in 0..30 {
        call_getppid(2_000);
        std::thread::sleep(Duration::from_millis(10));
    }
    let arrivals = compact.stop(consumer).unwrap().sink.0;
    let calm_end = calm_end.duration_since(begun).as_millis();
    let arrivals: Vec<Arrival> =
        arrivals.iter().map(|(at, bytes)| (at.duration_since(begun).as_millis(), *bytes)).collect();
    let (calm, burst): (Vec<Arrival>, Vec<Arrival>) =
        arrivals.into_iter().partition(|(ms, _)| *ms < calm_end);
    // Eight to ten where nothing else runs. How long the machine takes is not judged, only that a
    // burst is taken more often than the calm is.
    assert!((3..=12).contains(&calm.len()), "{calm:?}");
    assert!(typical_gap(&burst) * 2 <= typical_gap(&calm), "{calm:?}; {burst:?}");
    let bytes: usize = burst.iter().map(|(_, bytes)| bytes).sum();
    assert!(burst.len() >= 5 && bytes > 500_000, "{bytes} bytes: {burst:?}");
}

/// When, in ms, and how many bytes.
type Arrival = (u128, usize);

/// The median of the times between arrivals, in ms.
fn typical_gap(arrivals: &[Arrival]) -> u128 {
    let mut gaps: Vec<u128> = arrivals.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    gaps.sort_unstable();
    gaps[gaps.len() / 2]
}
