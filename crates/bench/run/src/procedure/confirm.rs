//! Is the suspect the limiter? Each is halved, and it is seen how far the result follows.
//!
//! With and without are interleaved in random order on one machine, so that what the host does meanwhile falls on both.

use super::{
    folder::Results,
    machines::Machines,
    order::Unit,
    own::Own,
    run::{Run, Witness},
};
use crate::{
    journal::{CellResult, Confirmation, Entry, Journal, Outcome, RunKey, State},
    plan::{Cell, Plan},
};
use std::{collections::BTreeMap, sync::atomic::AtomicBool};
use transect_bench_core::{Fault, Job, Kind, Lever, Refusal, crew, protocol::Role};
use transect_bench_limiter::{
    Place,
    perturb::{self, Target},
};
use transect_bench_stats::statistics::random::Random;
use transect_bench_workloads::{self as workloads, MeasuredBy};

/// Halves the suspected limiter of every cell that nobody traced, `times` each way, and writes down what came of it.
///
/// # Errors
/// What cannot be read, written or opened. A limiter that has no half, or cannot be halved here, is written down as
/// refused.
pub fn confirm(
    results: &Results,
    own: &Own,
    times: u32,
    must_stop: &AtomicBool,
    witness: &mut dyn Witness,
) -> Result<State, Fault> {
    let plan = Plan::parse(&results.plan_text()?, &results.plan().display().to_string())?;
    let (journal, entries, _) = Journal::resume(&results.journal())?;
    let state = State::of(&entries)?;
    let cells = plan.cells()?;
    let mut run = Run::new(plan, cells, journal, state, results, own, must_stop, witness);
    for (cell, key) in suspects(&run) {
        if run.must_stop() {
            break;
        }
        let confirmation = match run.halved(&cell, &key, times) {
            Ok(confirmation) => confirmation,
            Err(Fault::Refused(refusal)) => {
                Confirmation { cell, lever: None, elasticity: None, refused: Some(refusal) }
            }
            Err(fault) => return Err(fault),
        };
        run.write(Entry::Confirmed(Box::new(confirmation)))?;
    }
    Ok(run.state)
}

/// Cells under the reference arm that were not asked yet, each with one of its runs.
fn suspects(run: &Run<'_>) -> BTreeMap<Cell, RunKey> {
    let measured = run.state.ended.iter().filter(|(key, ended)| {
        matches!(ended.outcome, Outcome::Measured(_))
            && key.cell.tracer == run.plan.reference.tracer
            && !run.state.confirmed.contains_key(&key.cell)
    });
    measured.map(|(key, _)| (key.cell.clone(), key.clone())).collect()
}

impl Run<'_> {
    fn halved(&mut self, cell: &Cell, key: &RunKey, times: u32) -> Result<Confirmation, Fault> {
        let lever = self.lever(cell, key)?;
        let unit = Unit {
            platform: cell.platform.clone(),
            guests: cell.group.guests,
            boot: None,
            runs: Vec::new(),
        };
        let mut machines =
            Machines::open(&self.plan, &unit, self.own, &self.results.logs(), self.must_stop)?;
        let mut order: Vec<bool> = (0..times).flat_map(|_| [true, false]).collect();
        Random::stream(self.plan.seed, u64::from(u32::MAX)).shuffle(&mut order);
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for is_halved in order {
            let job = self.plan.job(cell, format!("confirm-{}", before.len() + after.len()));
            let job = Job { lever: is_halved.then(|| lever.clone()), seed: self.plan.seed, ..job };
            let (result, ()) = machines.run(&job, &self.plan, cell, self.must_stop, |_| ())?;
            let value = primary(cell, &result)?;
            if is_halved { after.push(value) } else { before.push(value) }
        }
        machines.close()?;
        let better = cell.group.about()?.metric.2;
        let elasticity = perturb::elasticity(&before, &after, better, lever.factor());
        Ok(Confirmation { cell: cell.clone(), lever: Some(lever), elasticity, refused: None })
    }

    /// What halves the suspect of a run.
    fn lever(&self, cell: &Cell, key: &RunKey) -> Result<Lever, Fault> {
        let refuse =
            |why: &str| Refusal::new(Kind::NotHere, format!("halving the limiter of {cell}"), why);
        if workloads::named(&cell.group.workload)?.measured_by() != MeasuredBy::Workload {
            return Err(refuse("the workload is measured from outside the machine").into());
        }
        let Some(Outcome::Measured(result)) = self.state.ended.get(key).map(|ended| &ended.outcome)
        else {
            return Err(refuse("it has no result").into());
        };
        let limiter =
            result.limiter.as_ref().ok_or_else(|| refuse("the machine was not sampled"))?;
        if limiter.place != Place::Machine {
            return Err(refuse("its limiter is on the host below or in the load generator: only the machine's own resources are halved").into());
        }
        let part = result.parts.iter().find(|part| matches!(part.role, Role::Whole | Role::Server));
        let part = part.ok_or_else(|| refuse("no part of it runs in a machine"))?;
        // The worker puts the process in; that there is one is all that is asked here.
        let target = Target { pids: vec![0], ..Target::default() };
        Ok(perturb::plan(limiter, &part.result.samples, &target)?)
    }
}

fn primary(cell: &Cell, result: &CellResult) -> Result<f64, Fault> {
    let about = cell.group.about()?;
    let roles: Vec<_> = result.parts.iter().map(|part| (part.role, &part.result)).collect();
    let metrics = crew::combine(&about, &roles)?;
    let first = metrics.first().ok_or_else(|| Fault::failed("the run has no metric"))?;
    Ok(first.value)
}
