//! Memory.

use super::disk;
use crate::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
    view::{View, part, percent, rate},
};
use transect_bench_core::samples::DiskCounts;

/// Pages are 4 KiB on all machines this runs on.
const PAGE: u64 = 4096;

fn stalled(view: &View<'_>) -> Option<f64> {
    view.samples.pressure.map(|pressure| view.share(pressure.memory.some).min(1.0))
}

/// See [`super::RULES`].
pub(super) fn memory(scene: &Scene<'_>) -> Vec<Suspect> {
    View::both(scene).iter().filter_map(memory_of).collect()
}

fn memory_of(view: &View<'_>) -> Option<Suspect> {
    let counts = &view.samples.memory.counts;
    let refaulted = counts.refaulted.saturating_mul(PAGE);
    let held = stalled(view).unwrap_or(0.0).max(waited_for_refaults(view, refaulted));
    if held < 0.1 {
        return None;
    }
    let group = view.samples.groups.iter().max_by_key(|group| group.memory_limit_hits);
    let limit = group.filter(|group| group.memory_limit_hits > 0).map(|group| {
        let bytes = group.memory_limit_bytes.unwrap_or(0);
        format!(
            "; limit of {} MiB in {} hit {} times",
            bytes >> 20,
            group.path,
            group.memory_limit_hits
        )
    });
    let evidence = format!(
        "stalled for memory {} of the time: {} read again after reclaim, {:.0} pages/s scanned, {:.0} major faults/s, at least {} MiB available{}",
        percent(held),
        rate(view.per_s(refaulted)),
        view.per_s(counts.scanned),
        view.per_s(counts.major_faults),
        view.samples.memory.available_min_bytes >> 20,
        limit.unwrap_or_default(),
    );
    Some(view.suspect(LimiterKind::Memory, held, evidence))
}

/// Waiting for disks, as far as what was read had been in memory before.
///
/// PSI counts only refaults of what is in the active set (mm/workingset.c): scattered reads of a file somewhat larger
/// than memory are hardly in it.
///
/// Files that somebody dropped and reads again are refaults too, but nothing is scanned then. And who waits for writes
/// does not wait for refaults.
fn waited_for_refaults(view: &View<'_>, refaulted: u64) -> f64 {
    let disks = &view.samples.disks;
    let sum = |of: fn(&DiskCounts) -> u64| disks.iter().map(|disk| of(&disk.counts)).sum::<u64>();
    let of_bytes = part(refaulted, sum(|counts| counts.read_bytes)).min(1.0);
    // A page that is missed is a request, and readahead makes that larger than what was missed.
    let of_requests = part(refaulted / PAGE, sum(|counts| counts.reads)).min(1.0);
    let share = if of_bytes < 0.1 { of_bytes } else { of_bytes.max(of_requests) };
    let reading = sum(|counts| counts.read_ns);
    let spent = reading + sum(|counts| counts.write_ns) + sum(|counts| counts.flush_ns);
    let is_reclaiming = view.samples.memory.counts.scanned.saturating_mul(PAGE) >= refaulted / 3;
    if share < 0.3 || !is_reclaiming {
        return 0.0;
    }
    let busy = disks.iter().map(|disk| view.share(disk.counts.busy_ns)).fold(0.0, f64::max);
    share * part(reading, spent) * disk::waited(view, busy)
}

/// See [`super::RULES`].
pub(super) fn swap(scene: &Scene<'_>) -> Vec<Suspect> {
    View::both(scene).iter().filter_map(swap_of).collect()
}

fn swap_of(view: &View<'_>) -> Option<Suspect> {
    let counts = &view.samples.memory.counts;
    let swapped =
        view.per_s(counts.swapped_in.saturating_add(counts.swapped_out).saturating_mul(PAGE));
    let held = stalled(view).unwrap_or(0.3);
    if swapped < 1e6 || held < 0.05 {
        return None;
    }
    let evidence = format!(
        "swapped in {}, out {}; stalled for memory {}",
        rate(view.per_s(counts.swapped_in * PAGE)),
        rate(view.per_s(counts.swapped_out * PAGE)),
        percent(held)
    );
    Some(view.suspect(LimiterKind::Swap, held, evidence))
}
