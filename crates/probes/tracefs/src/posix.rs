//! The clocks of clock_gettime(2).

use rustix::time::{ClockId, clock_gettime};

/// A POSIX clock as nanoseconds. These clocks never go below zero while a system runs.
pub(crate) fn posix_now_ns(id: ClockId) -> u64 {
    let now = clock_gettime(id);
    let s = u64::try_from(now.tv_sec).unwrap_or(0);
    let ns = u64::try_from(now.tv_nsec).unwrap_or(0);
    s.wrapping_mul(1_000_000_000).wrapping_add(ns)
}
