//! The conditions of findings on sums, wherever the sums come from: the rows of a recording, or a live window.
//! docs/reference/explain.md states them. Thresholds are judgement.

use super::finding::{Range, reaches};

/// Waits of this share of the time that a CPU was wanted, and of this many thousandths of a second, are starvation.
const STARVED_PERCENT: i64 = 10;
const STARVED_MS: i64 = 20;
/// Waits of this share of the range for a quota are worth a word.
const THROTTLED_PERCENT: i64 = 5;
/// A CPU that leaves its idle state needs less than this many thousandths of a second: a longer wait is for a quota.
const LEAVING_IDLE_MS: i64 = 1;
/// Exits of one reason whose handling takes this share of a vCPU's time on a CPU, or that are so many per second.
const STORM_PERCENT: i64 = 20;
const STORM_PER_SECOND: u64 = 10_000;
/// Polls of this share of a vCPU's time on a CPU, of which this share ends with a sleep, and such polls of this share of the range.
/// Whether others wait for the CPU does not tell: KVM polls only while nobody else is runnable there (`kvm_vcpu_can_poll`,
/// virt/kvm/kvm_main.c). What is wasted is a CPU that could sleep, or give its core to the other hardware thread.
const POLL_PERCENT: i64 = 10;
const POLL_FAILED_PERCENT: i64 = 50;
const POLL_RANGE_PERCENT: i64 = 5;
/// Fewer requests than this in each run, times 100 (XenMon, Gupta and others 2005), and at least these: without requests there
/// is nothing to be scheduled for.
const MOST_PER_RUN: u64 = 140;
const LEAST_PER_RUN: u64 = 50;
const RUNS_PER_SECOND: u64 = 500;
/// Who waits for less than this share of the wanted time loses nothing.
const WAITED_PERCENT: i64 = 1;
/// Reclaim of this share of the time is worth a word.
const RECLAIM_PERCENT: i64 = 5;

/// Waits behind others, of the time that a CPU was wanted.
pub fn is_starved(waited: i64, wanted: i64, range: Range) -> bool {
    // Without seconds, as long as that is in a range of a second.
    let least = range.second.map_or(range.length() / 50, |second| second / 1000 * STARVED_MS);
    reaches(waited, STARVED_PERCENT, wanted) && waited >= least
}

/// Waits for a quota.
pub fn is_throttled(waited: i64, range: Range) -> bool {
    reaches(waited, THROTTLED_PERCENT, range.length())
}

/// Is a wait for a CPU that nobody had too long for one that leaves its idle state? Not known without seconds.
pub fn is_too_long_for_idle(waited: i64, range: Range) -> bool {
    range.second.is_some_and(|second| waited > second / 1000 * LEAVING_IDLE_MS)
}

/// Exits of one reason: their handling, of the vCPU's time on a CPU, and their number.
pub fn is_exit_storm(handling: i64, on_cpu: i64, count: u64, range: Range) -> bool {
    reaches(handling, STORM_PERCENT, on_cpu) || range.is_often(count, STORM_PER_SECOND)
}

/// Polls for a halted vCPU, those of them in vain, and its time on a CPU.
pub fn is_in_vain(polled: i64, failed: i64, on_cpu: i64, range: Range) -> bool {
    reaches(polled, POLL_PERCENT, on_cpu)
        && reaches(failed, POLL_FAILED_PERCENT, polled)
        && reaches(failed, POLL_RANGE_PERCENT, range.length())
}

/// Runs of a VM and its requests, its waits, and the time that it wanted a CPU. If it is scheduled for each request: how many there
/// are in each run, times 100.
pub fn requests_per_run(
    runs: u64,
    requests: u64,
    waited: i64,
    wanted: i64,
    range: Range,
) -> Option<u64> {
    let per_run = requests.saturating_mul(100) / runs.max(1);
    let is_it = (LEAST_PER_RUN..MOST_PER_RUN).contains(&per_run)
        && range.is_often(runs, RUNS_PER_SECOND)
        && reaches(waited, WAITED_PERCENT, wanted);
    is_it.then_some(per_run)
}

/// Reclaim, of the time of those for whom it is done.
pub fn is_reclaiming(held: i64, of: i64) -> bool {
    reaches(held, RECLAIM_PERCENT, of)
}
