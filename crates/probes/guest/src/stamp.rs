//! Reading the clock the trace is stamped with, from user space.
//!
//! A bracket only encloses a guest stamp if all three stamps come from the clocks the two kernels
//! write into their traces. Names are those of the kernel's `trace_clock` file
//! (`kernel/trace/trace.c`, `trace_clocks[]`); `local`, `global`, `counter`, `uptime` and `perf`
//! cannot be read from user space and so cannot be exchanged.
#![allow(unsafe_code)] // rdtsc and lfence are intrinsics; rustix covers the rest.

use rustix::time::{ClockId, clock_gettime};

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
    fn clocks_run_forward() {
        for clock in StampClock::ALL.into_iter().filter(|clock| clock.is_readable()) {
            let first = clock.now().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(2));
            let ticks = clock.now().unwrap() - first;
            assert!(ticks >= 1_000_000, "{clock:?}: {ticks} in 2 ms");
        }
    }
}
