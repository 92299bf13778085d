//! Virtualisation: what the host does for the guest.

use crate::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
    view::{View, part, percent, thread_name},
};
use transect_bench_core::protocol::Exits;

/// See [`super::RULES`].
pub(super) fn exits(scene: &Scene<'_>) -> Vec<Suspect> {
    let traced = scene.facts.exits.and_then(|exits| traced(&View::machine(scene)?, exits));
    let sampled = View::host(scene).and_then(|view| outside_guest(&view));
    // The trace knows more than the host's clocks; one suspect is enough.
    traced.or(sampled).into_iter().collect()
}

fn traced(view: &View<'_>, exits: Exits) -> Option<Suspect> {
    let over_ns = exits.over_ns.max(1) as f64;
    let held = exits.handled_ns as f64 / over_ns / f64::from(exits.vcpus.max(1));
    let each = if exits.count == 0 { 0.0 } else { exits.handled_ns as f64 / exits.count as f64 };
    let evidence = format!(
        "{:.0} exits/s of {:.1} µs each: {} of the time of {} vCPUs",
        exits.count as f64 * 1e9 / over_ns,
        each / 1000.0,
        percent(held),
        exits.vcpus
    );
    (held >= 0.2).then(|| view.suspect(LimiterKind::ExitHandling, held, evidence))
}

/// `/proc/PID/stat` has a thread's time in guests (`account_guest_time`): the rest is the kernel's and VMM's.
fn outside_guest(view: &View<'_>) -> Option<Suspect> {
    let vcpus = view.threads().iter().filter(|thread| thread.guest_ns > 0);
    let thread = vcpus.max_by_key(|thread| thread.cpu_ns)?;
    let outside = thread.cpu_ns.saturating_sub(thread.guest_ns);
    let (held, ratio) = (view.share(outside), part(outside, thread.cpu_ns));
    if ratio < 0.3 || held < 0.2 {
        return None;
    }
    let exits = view
        .samples
        .kvm_exits
        .map(|exits| format!("; {:.0} exits/s of all guests", view.per_s(exits)));
    let evidence = format!(
        "vCPU thread {} ran {} of the time, {} of that outside the guest{}",
        thread_name(thread),
        percent(view.share(thread.cpu_ns)),
        percent(ratio),
        exits.unwrap_or_default(),
    );
    Some(view.suspect(LimiterKind::ExitHandling, held, evidence))
}

/// See [`super::RULES`].
pub(super) fn emulator(scene: &Scene<'_>) -> Vec<Suspect> {
    let is_emulated = scene.facts.accelerator.to_ascii_lowercase().contains("tcg");
    View::host(scene)
        .filter(|_| is_emulated)
        .and_then(|view| {
            let thread = view.busiest()?;
            let held = view.share(thread.cpu_ns);
            let evidence = format!(
                "`{}`: VMM thread {} ran {} of the time: it translates and executes the guest's instructions",
                scene.facts.accelerator,
                thread_name(thread),
                percent(held)
            );
            (held >= 0.5).then(|| view.suspect(LimiterKind::Emulator, held, evidence))
        })
        .into_iter()
        .collect()
}
