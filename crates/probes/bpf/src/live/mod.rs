//! Counting instead of recording: what every thread, vCPU and CPU did, window by window.
//!
//! **What.** The programs of `bpf/live.bpf.c` keep, in the kernel and per thread, how long it ran, waited
//! and slept, slices, migrations, waits by length, who was in its way; of vCPU threads guest mode,
//! exits by reason with their durations, halts, device accesses, interrupts; block requests by
//! process and packets by device. [`Live::take`] gives one window of all that.
//!
//! **Data flow.** [`LivePlan`] → [`Live::load`] → [`Live::start`] → [`Live::take`], once per window: wait
//! for the edge, wait until no program runs that began before it, copy what is mapped, look two
//! maps up in batches. Nothing is consumed per event.
//!
//! **Design constraints.** Windows are the multiples of their length on CLOCK_MONOTONIC, and an
//! event belongs to the window of its stamp: the programs cut what is under way at the edge, to the
//! nanosecond (see `bpf/live.h`). A reader that comes too late has missed windows, and says how
//! many. What cannot be counted here is named with its reason ([`Live::not_counted`]); threads for
//! which there was no room are counted.
//!
//! ```no_run
//! use transect_bpf::live::{Live, LivePlan};
//! # fn main() -> Result<(), transect_bpf::BpfError> {
//! let mut live = Live::load(&LivePlan::default())?;
//! live.start()?;
//! let window = live.take()?;
//! for thread in &window.threads {
//!     println!("{} ran {} ns and waited {}", thread.tid, thread.running_ns, thread.waking_ns);
//! }
//! # Ok(())
//! # }
//! ```

mod layout;
mod load;
mod memory;
mod programs;
mod read;
mod window;

pub use crate::monotonic::monotonic_ns;
pub use layout::BUCKETS;
pub use programs::NotCounted;
pub use read::{Durations, ExitCounts, Io, IoCounts, Live, LiveWindow};
pub use window::{Rival, ThreadPlace, ThreadWindow};

use crate::BpfError;

/// The shortest window: a reader has to come once in each, and a grace period takes some 20 ms.
pub const MIN_WINDOW_NS: u64 = 50_000_000;
/// The longest.
pub const MAX_WINDOW_NS: u64 = 60_000_000_000;

/// What is to be counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LivePlan {
    /// Length of the windows, ns.
    pub window_ns: u64,
    /// Count block requests and packets, too.
    pub io: bool,
    /// Only these events (as `system:event`; `sched:sched_switch` has to be among them). None: all.
    pub only: Option<Vec<String>>,
    /// Programs that do nothing, to measure what a program costs at least.
    pub empty_programs: bool,
}

impl Default for LivePlan {
    fn default() -> Self {
        Self { window_ns: 1_000_000_000, io: true, only: None, empty_programs: false }
    }
}

impl LivePlan {
    pub(crate) fn wants(&self, event: &str) -> bool {
        let is_io = event.starts_with("block:") || event.starts_with("net:");
        let named = self.only.as_ref().is_none_or(|only| only.iter().any(|name| name == event));
        named && (self.io || !is_io)
    }

    /// Can it be followed, by whatever source?
    ///
    /// # Errors
    /// Its windows are too short or too long.
    pub fn check(&self) -> Result<(), BpfError> {
        if !(MIN_WINDOW_NS..=MAX_WINDOW_NS).contains(&self.window_ns) {
            return Err(BpfError::Plan(format!(
                "window length of {} ns is outside 50 ms to 60 s",
                self.window_ns
            )));
        }
        Ok(())
    }
}

/// Lengths that bucket number `bucket` counts, ns: from, and up to (exclusive; none: no end).
///
/// Bucket 0 has what is below 512 ns; then every power of two is divided in four; the last one in use
/// has all from 8.6 s on.
pub fn bucket_bounds_ns(bucket: usize) -> (u64, Option<u64>) {
    match bucket {
        0 => (0, Some(512)),
        1..=96 => {
            let (octave, part) = ((bucket - 1) / 4, (bucket - 1) as u64 % 4);
            let step = 128_u64 << octave;
            let from = (512 << octave) + part * step;
            (from, Some(from + step))
        }
        _ => (512 << 24, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_have_no_gap() {
        let mut at = 0;
        for bucket in 0..97 {
            let (from, to) = bucket_bounds_ns(bucket);
            assert_eq!(from, at, "bucket {bucket}");
            at = to.unwrap();
        }
        assert_eq!(bucket_bounds_ns(97), (at, None));
        assert_eq!(at, 1 << 33);
    }

    #[test]
    fn windows_too_short_to_be_read_are_refused() {
        let plan = LivePlan { window_ns: 1_000_000, ..LivePlan::default() };
        assert!(plan.check().unwrap_err().to_string().contains("50 ms"));
    }
}
