//! What held a cell back, from what its parts' samplers saw.

use crate::{
    journal::{CellResult, PartResult},
    limiter::{self, Limiter, RunFacts, Scene},
    protocol::Role,
};

/// The suspected limiter of a cell; `None` where nothing was sampled.
pub(super) fn of(result: &CellResult, accelerator: &str) -> Option<Limiter> {
    let sampled = |part: &&PartResult| part.result.samples != crate::sampling::Samples::default();
    let part =
        |is_it: fn(Role) -> bool| result.parts.iter().filter(sampled).find(|part| is_it(part.role));
    let machine = part(|role| matches!(role, Role::Whole | Role::Server))?;
    let samples = |role: fn(Role) -> bool| part(role).map(|part| &part.result.samples);
    let facts = RunFacts {
        accelerator: accelerator.to_owned(),
        tracer: machine.result.tracer.clone(),
        exits: None,
        offered: None,
    };
    Some(limiter::suspect(&Scene {
        machine: &machine.result.samples,
        host: samples(|role| role == Role::Bystander),
        generator: samples(|role| role == Role::Generator),
        facts: &facts,
    }))
}
