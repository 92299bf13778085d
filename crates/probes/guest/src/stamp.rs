//! Reading the clock the trace is stamped with, from user space.
//!
//! A bracket only encloses a guest stamp if all three stamps come from the clocks the two kernels
//! write into their traces. Names are those of the kernel's `trace_clock` file
//! (`kernel/trace/trace.c`, `trace_clocks[]`); `local`, `global`, `counter`, `uptime` and `perf`
//! cannot be read from user space and so cannot be exchanged.
#![allow(unsafe_code)] // rdtsc and lfence are intrinsics; rustix covers the rest.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A clock that both a kernel's tracer and a user program can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StampClock {
    /// `x86-tsc`: the CPU's counter, ticks.
    X86Tsc,
    /// `mono`: CLOCK_MONOTONIC, ns.
    Mono,
    /// `mono_raw`: CLOCK_MONOTONIC_RAW, ns.
    MonoRaw,
    /// `boot`: CLOCK_BOOTTIME, ns.
    Boot,
}

impl StampClock {
    /// All of them, best for tracing guests first.
    pub const ALL: [StampClock; 4] =
        [StampClock::X86Tsc, StampClock::Mono, StampClock::MonoRaw, StampClock::Boot];

    /// The kernel's name for it.
    pub fn name(self) -> &'static str {
        match self {
            StampClock::X86Tsc => "x86-tsc",
            StampClock::Mono => "mono",
            StampClock::MonoRaw => "mono_raw",
            StampClock::Boot => "boot",
        }
    }

    /// By the kernel's name; `None` for clocks that user space cannot read.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.name() == name)
    }

    /// The byte that stands for it in the protocol.
    pub fn code(self) -> u8 {
        match self {
            StampClock::X86Tsc => 1,
            StampClock::Mono => 2,
            StampClock::MonoRaw => 3,
            StampClock::Boot => 4,
        }
    }

    /// The inverse of [`StampClock::code`].
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|clock| clock.code() == code)
    }

    /// Can this program read it here?
    pub fn is_readable(self) -> bool {
        self.now().is_some()
    }

    /// The clock now, in its own unit; `None` if this machine has no such clock.
    pub fn now(self) -> Option<u64> {
        match self {
            StampClock::X86Tsc => tsc(),
            StampClock::Mono => clock_ns(ClockId::Monotonic),
            StampClock::MonoRaw => clock_ns(ClockId::MonotonicRaw),
            StampClock::Boot => clock_ns(ClockId::Boottime),
        }
    }
}

/// A kernel clock read beside the TSC: it showed `ns` somewhere in `tsc_before..=tsc_after`. What
/// relates stamps in nanoseconds to the counter that KVM gives a guest at a known offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscReading {
    /// The clock.
    pub clock: StampClock,
    /// The TSC just before.
    pub tsc_before: u64,
    /// The clock, ns.
    pub ns: u64,
    /// The TSC just after.
    pub tsc_after: u64,
}

impl TscReading {
    /// How often to read while recording. The clock crate takes a rate to be changed at most once
    /// in 0.9 s, and needs several readings in that time to see it.
    pub const EVERY: Duration = Duration::from_millis(100);
    /// Readings in a burst, of which the tightest counts: about half a microsecond in all, and
    /// whoever is interrupted in one is not in most others.
    const BURST: u32 = 8;

    /// Reads `clock` beside the TSC. `None` for the TSC itself, and where one of the two is not.
    pub fn take(clock: StampClock) -> Option<Self> {
        if clock == StampClock::X86Tsc {
            return None;
        }
        let read = |_| {
            let tsc_before = tsc()?;
            let ns = clock.now()?;
            Some(TscReading { clock, tsc_before, ns, tsc_after: tsc()? })
        };
        (0..Self::BURST).filter_map(read).min_by_key(|reading| reading.width_ticks())
    }

    /// How far apart the two ticks are; a TSC that ran backwards makes the worst of readings.
    pub fn width_ticks(&self) -> u64 {
        self.tsc_after.checked_sub(self.tsc_before).unwrap_or(u64::MAX)
    }
}

fn clock_ns(id: ClockId) -> Option<u64> {
    let time = clock_gettime(id);
    let secs = u64::try_from(time.tv_sec).ok()?;
    let nanos = u64::try_from(time.tv_nsec).ok()?;
    secs.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(target_arch = "x86_64")]
fn tsc() -> Option<u64> {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: lfence and rdtsc touch no memory. rdtsc faults only if the process asked for that
    // with prctl(PR_SET_TSC), which transect never does. The fence keeps the read from moving up
    // before the system call whose instant it marks (kernel: rdtsc_ordered()).
    let ticks = unsafe {
        _mm_lfence();
        _rdtsc()
    };
    Some(ticks)
}

#[cfg(not(target_arch = "x86_64"))]
fn tsc() -> Option<u64> {
    None
}

/// The CPU this thread runs on, for the record beside a stamp; it may have moved since.
pub fn current_cpu() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_are_inverse() {
        for clock in StampClock::ALL {
            assert_eq!(StampClock::from_name(clock.name()), Some(clock));
            assert_eq!(StampClock::from_code(clock.code()), Some(clock));
        }
        assert_eq!(StampClock::from_name("local"), None);
        assert_eq!(StampClock::from_code(0), None);
    }

    #[test]
    fn a_clock_is_read_beside_the_tsc() {
        assert_eq!(TscReading::take(StampClock::X86Tsc), None);
        if !StampClock::X86Tsc.is_readable() {
            return;
        }
        let before = (tsc().unwrap(), StampClock::Mono.now().unwrap());
        let readings: Vec<TscReading> =
            (0..100).map(|_| TscReading::take(StampClock::Mono).unwrap()).collect();
        let after = (tsc().unwrap(), StampClock::Mono.now().unwrap());
        for reading in &readings {
            assert!(before.0 <= reading.tsc_before && reading.tsc_after <= after.0);
            assert!(before.1 <= reading.ns && reading.ns <= after.1);
        }
        let in_order = |pair: &[TscReading]| pair[0].ns <= pair[1].ns;
        assert!(readings.windows(2).all(in_order));
        // The tightest of many is what the two reads cost, not what a scheduler does.
        let tightest = readings.iter().map(TscReading::width_ticks).min().unwrap();
        assert!(tightest < 100_000, "{tightest} ticks");
    }

    #[test]
    fn clocks_run_forward() {
        for clock in StampClock::ALL.into_iter().filter(|clock| clock.is_readable()) {
            let first = clock.now().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
            let ticks = clock.now().unwrap() - first;
            assert!(ticks >= 1_000_000, "{clock:?}: {ticks} in 2 ms");
        }
    }
}
