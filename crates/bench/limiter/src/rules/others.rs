//! What measures: the load generator and the tracer.

use super::{cpu, network};
use crate::{
    limiter::{LimiterKind, Suspect},
    scene::Scene,
    view::{View, percent},
};

/// See [`super::RULES`].
pub(super) fn generator(scene: &Scene<'_>) -> Vec<Suspect> {
    let offered = offered(scene);
    let generator = View::generator(scene).filter(|_| !network::is_flooded(scene));
    let sampled = generator.and_then(|view| {
        let inner = [
            (cpu::single_thread_of(&view), 0.8),
            (cpu::all_cpus_of(&view), 0.8),
            (cpu::quota_of(&view), 0.3),
            (cpu::steal_of(&view), 0.3),
            (cpu::run_queue_of(&view), 0.3),
        ];
        let fired =
            inner.into_iter().filter_map(|(suspect, least)| suspect.filter(|it| it.held >= least));
        fired.max_by(|a, b| a.held.total_cmp(&b.held))
    });
    let sampled = sampled.map(|inner| {
        let evidence = format!("{} ({})", inner.evidence, inner.kind.words());
        Suspect { kind: LimiterKind::Generator, evidence, ..inner }
    });
    offered.or(sampled).into_iter().collect()
}

/// An open-loop generator that is late, or was at its end, measures itself.
fn offered(scene: &Scene<'_>) -> Option<Suspect> {
    let offered = scene.facts.offered?;
    let sent = offered.sent_per_s / offered.due_per_s;
    let is_late = offered.late_share >= 0.05 || (offered.due_per_s > 0.0 && sent < 0.95);
    let evidence = if is_late {
        format!(
            "{:.0} of {:.0} due requests/s were sent, {} of them late",
            offered.sent_per_s,
            offered.due_per_s,
            percent(offered.late_share)
        )
    } else if offered.is_most {
        format!(
            "all of {:.0} requests/s conformed, and the plan allows no higher rate",
            offered.due_per_s
        )
    } else {
        return None;
    };
    // How long it held the server cannot be known, but that the figure is the generator's is certain.
    let view = View::machine(scene)?;
    let mut suspect = view.suspect(LimiterKind::Generator, 1.0, evidence);
    suspect.place = crate::Place::Generator;
    Some(suspect)
}

/// See [`super::RULES`].
pub(super) fn tracer(scene: &Scene<'_>) -> Vec<Suspect> {
    View::machine(scene)
        .and_then(|view| {
            let tracer = scene.facts.tracer.as_ref()?;
            let had = view.share(tracer.consumer_cpu_ns?);
            let lost = tracer.lost_events.unwrap_or(0);
            let part = had / view.cpu_count();
            let held = match (had, lost) {
                (0.8.., _) => had,
                (0.5.., 1..) => had,
                _ if view.busy() >= 0.9 && part >= 0.15 => part,
                _ => return None,
            };
            let evidence = format!(
                "the tracer's consumer used {} of a CPU; {lost} events lost; CPUs busy {}",
                percent(had),
                percent(view.busy())
            );
            Some(view.suspect(LimiterKind::TracerConsumer, held, evidence))
        })
        .into_iter()
        .collect()
}
