//! Memory.

use crate::limiter::{
    LimiterKind, Scene, Suspect,
    view::{View, percent, rate},
};

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
    let refaulted = counts.refaulted * PAGE;
    let read: u64 = view.samples.disks.iter().map(|disk| disk.counts.read_bytes).sum();
    let held = match stalled(view) {
        Some(stalled) => (stalled >= 0.1).then_some(stalled)?,
        // Without PSI only that there were refaults is known, not for how long anybody waited.
        None => (refaulted > 0 && refaulted as f64 >= 0.3 * read as f64).then_some(0.3)?,
    };
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
        "stalled for memory {} of the time: {} read again soon after it was dropped, {:.0} pages/s scanned, {:.0} major faults/s, at least {} MiB available{}",
        percent(held),
        rate(view.per_s(refaulted)),
        view.per_s(counts.scanned),
        view.per_s(counts.major_faults),
        view.samples.memory.available_min_bytes >> 20,
        limit.unwrap_or_default(),
    );
    Some(view.suspect(LimiterKind::Memory, held, evidence))
}

/// See [`super::RULES`].
pub(super) fn swap(scene: &Scene<'_>) -> Vec<Suspect> {
    View::both(scene).iter().filter_map(swap_of).collect()
}

fn swap_of(view: &View<'_>) -> Option<Suspect> {
    let counts = &view.samples.memory.counts;
    let swapped = view.per_s((counts.swapped_in + counts.swapped_out) * PAGE);
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
