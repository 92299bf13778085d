//! What held a cell back, from what its parts' samplers saw.

use crate::{
    journal::{CellResult, PartResult},
    limiter::{self, Limiter, Offered, RunFacts, Scene},
    protocol::{Role, RunResult},
};

/// The suspected limiter of a cell; `None` where nothing was sampled.
pub(super) fn of(result: &CellResult, accelerator: &str) -> Option<Limiter> {
    let sampled = |part: &&PartResult| part.result.samples != crate::sampling::Samples::default();
    let part =
        |is_it: fn(Role) -> bool| result.parts.iter().filter(sampled).find(|part| is_it(part.role));
    let machine = part(|role| matches!(role, Role::Whole | Role::Server))?;
    let samples = |role: fn(Role) -> bool| part(role).map(|part| &part.result.samples);
    let tracers = || result.parts.iter().filter_map(|part| part.result.tracer.as_ref());
    let facts = RunFacts {
        accelerator: accelerator.to_owned(),
        tracer: machine.result.tracer.clone(),
        exits: tracers().find_map(|tracer| tracer.exits),
        offered: part(|role| role == Role::Generator).and_then(|part| offered(&part.result)),
    };
    Some(limiter::suspect(&Scene {
        machine: &machine.result.samples,
        host: samples(|role| role == Role::Bystander),
        generator: samples(|role| role == Role::Generator),
        facts: &facts,
    }))
}

/// What an open-loop generator says of itself.
fn offered(of_generator: &RunResult) -> Option<Offered> {
    let metric = |name: &str| {
        of_generator.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    };
    // It sends whatever is due, late if it must.
    let (due_per_s, late_share) = (metric("offered_rate")?, metric("generator_late_share")?);
    Some(Offered { due_per_s, sent_per_s: due_per_s, late_share })
}
