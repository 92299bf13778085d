//! Waiting for each other, and for nothing.

use crate::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
    view::{View, part, percent, thread_name},
};

/// See [`super::RULES`].
pub(super) fn lock(scene: &Scene<'_>) -> Vec<Suspect> {
    View::machine(scene).and_then(|view| lock_of(&view)).into_iter().collect()
}

fn lock_of(view: &View<'_>) -> Option<Suspect> {
    // Who waits for a thread that computes, or where no CPU is left, would not be faster without the lock.
    let computes = view.busiest().is_some_and(|thread| view.share(thread.cpu_ns) >= 0.8);
    if computes || view.watched_cpus() >= 0.85 * view.cpu_count() {
        return None;
    }
    let active: Vec<_> = view.active().filter(|thread| thread.sleeps.all() >= 3).collect();
    let at_lock: Vec<_> = active.iter().filter(|thread| thread.sleeps.lock > 0).collect();
    if at_lock.len() < 2 {
        return None;
    }
    let sum: f64 = active.iter().map(|thread| view.slept_at(thread, thread.sleeps.lock)).sum();
    let held = sum / active.len() as f64;
    if held < 0.25 {
        return None;
    }
    let slices = at_lock.iter().map(|thread| thread.slices).sum();
    let evidence = format!(
        "{} of {} active threads sleep on a futex (mutex or condition variable), {} of the time on average, woken {:.0} times/s; together they used {:.2} CPUs",
        at_lock.len(),
        active.len(),
        percent(held),
        view.per_s(slices),
        view.watched_cpus(),
    );
    Some(view.suspect(LimiterKind::Lock, held, evidence))
}

/// See [`super::RULES`].
pub(super) fn latency(scene: &Scene<'_>) -> Vec<Suspect> {
    View::machine(scene).and_then(|view| latency_of(&view)).into_iter().collect()
}

fn latency_of(view: &View<'_>) -> Option<Suspect> {
    let thread = view.busiest()?;
    let held = 1.0 - view.share(thread.cpu_ns + thread.wait_ns);
    if held < 0.3 || view.watched_cpus() >= 0.7 * view.cpu_count() {
        return None;
    }
    let asleep = thread.sleeps.asleep();
    let (place, samples) = thread
        .sleeps
        .classes()
        .into_iter()
        .max_by_key(|(_, samples)| *samples)
        .filter(|(_, samples)| *samples > 0)?;
    let evidence = format!(
        "no resource is busy: thread {} ran {} of the time and slept {}, {} of that at: {place}",
        thread_name(thread),
        percent(view.share(thread.cpu_ns)),
        percent(held),
        percent(part(samples, asleep)),
    );
    Some(view.suspect(LimiterKind::Latency, held, evidence))
}
