//! Two folders of results beside each other, and an exit code of one or two.

use std::collections::BTreeMap;
use transect_bench_core::{Fault, Kind, Refusal};
use transect_bench_run::{
    journal::{self, State},
    ledger::{self, Lossy},
    plan::Plan,
    procedure::Results,
};
use transect_bench_stats::design::{
    self, ContrastSummary, Ledger, Relation, Summary,
    compare::{self, Comparison, ResultSet, Terms},
    gate::{self, Gate},
};

/// Puts the second folder's results beside the first's.
///
/// # Errors
/// What cannot be read; [`Kind::Different`] if the two were measured on machines, with programs or with parameters
/// that differ in anything that [`Terms::may_differ`] does not name.
pub fn compare(first: &Results, second: &Results, terms: &Terms) -> Result<Comparison, Fault> {
    Ok(compare::compare(&set_of(first)?, &set_of(second)?, terms)?)
}

/// What may not cost more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// Only these tracer arms, and no platform; empty: all.
    pub tracers: Vec<String>,
    /// Only these platforms; empty: all.
    pub platforms: Vec<String>,
    /// Only these workloads; empty: all.
    pub workloads: Vec<String>,
}

/// Judges tracer arms, each over the reference of its platform.
///
/// # Errors
/// What cannot be read; [`Kind::NoReference`] if nothing was compared that is chosen.
pub fn gate(results: &Results, gate: &Gate, chosen: &Chosen) -> Result<gate::Report, Fault> {
    let (ledger, summary) = summary_of(results)?.1;
    let is_asked = |found: &&ContrastSummary| {
        let cell = ledger.layout().cell(&found.contrast.cell);
        let has = |all: &[String], name: &str| all.is_empty() || all.iter().any(|one| one == name);
        found.contrast.relation == Relation::Arm
            && cell.is_some_and(|cell| {
                has(&chosen.tracers, &cell.arm)
                    && has(&chosen.platforms, &cell.platform)
                    && has(&chosen.workloads, &cell.workload)
            })
    };
    let asked: Vec<&ContrastSummary> = summary.contrasts.iter().filter(is_asked).collect();
    if asked.is_empty() {
        let what = format!("the gate over {}", results.folder().display());
        return Err(
            Refusal::new(Kind::NoReference, what, "no requested tracer arm was measured").into()
        );
    }
    Ok(gate.paired(&asked))
}

/// Judges the second folder's costs over the first's.
///
/// # Errors
/// As of [`compare`].
pub fn gate_between(
    first: &Results,
    second: &Results,
    gate: &Gate,
    terms: &Terms,
) -> Result<gate::Report, Fault> {
    Ok(compare::gate(gate, &set_of(first)?, &set_of(second)?, terms)?)
}

fn set_of(results: &Results) -> Result<ResultSet, Fault> {
    let (configuration, (ledger, summary)) = summary_of(results)?;
    Ok(ResultSet::of(results.folder().display().to_string(), configuration, &ledger, &summary))
}

type Configuration = BTreeMap<String, String>;

fn summary_of(results: &Results) -> Result<(Configuration, (Ledger, Summary)), Fault> {
    let plan = Plan::parse(&results.plan_text()?, &results.plan().display().to_string())?;
    let state = State::of(&journal::read(&results.journal())?)?;
    let mut ledger = ledger::ledger_of(&plan, &state, Lossy::Apart)?;
    ledger.exclude_warm_up();
    let summary = design::summarise(&ledger, &ledger::goal_of(&plan));
    Ok((configuration_of(&plan, &state), (ledger, summary)))
}

/// What must agree, by name: of the plan what makes a run, of each platform what it was.
fn configuration_of(plan: &Plan, state: &State) -> Configuration {
    let mut all = Configuration::new();
    all.insert("memory".to_owned(), format!("{} MiB", plan.machine.memory_mib));
    all.insert(
        "cpus".to_owned(),
        format!("{} pinned to {:?}", plan.machine.cpus, plan.machine.pin),
    );
    for (name, params) in plan.workloads.iter().chain(&plan.tracers) {
        all.insert(format!("{name} parameters"), format!("{params:?}"));
    }
    for opened in &state.opened {
        let name = &opened.platform;
        all.insert(format!("{name} kernel"), opened.worker.kernel.clone());
        all.insert(format!("{name} accelerator"), opened.facts.accelerator.clone());
        all.insert("binary".to_owned(), opened.worker.binary_sha256.clone());
    }
    for ended in state.ended.values() {
        if let journal::Outcome::Measured(result) = &ended.outcome {
            let programs = result.parts.iter().flat_map(|part| &part.result.programs);
            all.extend(programs.map(|(name, sha)| (format!("program {name}"), sha.clone())));
        }
    }
    all
}
