//! What held a cell back, from what its parts' samplers saw.

use crate::journal::{CellResult, Entry, Outcome, PartResult};
use std::collections::BTreeMap;
use transect_bench_core::{
    Family, Fault,
    protocol::{Role, RunResult},
};
use transect_bench_limiter::{self as limiter, Limiter, Offered, RunFacts, Scene};

/// The suspected limiter of a cell; `None` where nothing was sampled, and where nothing is done that could be limited.
pub(super) fn of(result: &CellResult, accelerator: &str, family: Family) -> Option<Limiter> {
    if family == Family::Footprint {
        return None;
    }
    let sampled = |part: &&PartResult| {
        part.result.samples != transect_bench_core::samples::Samples::default()
    };
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

/// Names all limiters anew: by the rules of this program, from the samples that were kept.
pub fn judge_again(entries: &mut [Entry]) -> Result<(), Fault> {
    let mut accelerators = BTreeMap::new();
    for entry in entries {
        match entry {
            Entry::Opened(opened) => {
                accelerators.insert(opened.platform.clone(), opened.facts.accelerator.clone());
            }
            Entry::Ended(ended) => {
                let cell = &ended.key.cell;
                let family = cell.group.about()?.family;
                let accelerator = accelerators.get(&cell.platform).map_or("", String::as_str);
                if let Outcome::Measured(result) = &mut ended.outcome {
                    result.limiter = of(result, accelerator, family);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What an open-loop generator says of itself.
fn offered(of_generator: &RunResult) -> Option<Offered> {
    let metric = |name: &str| {
        of_generator.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
    };
    // It sends whatever is due, late if it must.
    let (due_per_s, late_share) = (metric("offered_rate")?, metric("generator_late_share")?);
    let is_most = metric("offer_held") == Some(1.0);
    Some(Offered { due_per_s, sent_per_s: due_per_s, late_share, is_most })
}
