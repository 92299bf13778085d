//! From a journal to what statistics are made of.

use crate::{
    journal::{CellResult, Outcome, State},
    plan::{Cell, Label, Plan},
};
use std::collections::BTreeMap;
use transect_bench_core::{About, Better, Family, Fault};
use transect_bench_stats::{
    design::{self, Cause, Exclusion, Goal, Layout, Ledger, Reference},
    statistics::looks::Looks,
};

/// What becomes of a run whose tracer lost events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lossy {
    /// It counts as the arm that it was meant to be: to decide when there are enough blocks.
    Counted,
    /// It is an arm of its own, since it did less than it should have: for everything that is said.
    Apart,
}

/// What a lossy arm is called; it may be called so already.
#[must_use]
pub fn lossy(tracer: &str) -> String {
    format!("{} (lossy)", tracer.trim_end_matches(" (lossy)"))
}

/// The precision and the looks that a plan asks for.
#[must_use]
pub fn goal_of(plan: &Plan) -> Goal {
    let at: Vec<usize> = plan.procedure.looks.iter().map(|look| *look as usize).collect();
    match (at.as_slice(), plan.procedure.precision) {
        ([blocks], None) => Goal::fixed(*blocks),
        (_, precision) => {
            let precise = Goal::precise();
            let families = precise.half_width.into_iter();
            let half_width = families.map(|(family, width)| (family, precision.unwrap_or(width)));
            let confidence = if at.len() == 1 { 0.95 } else { precise.looks.confidence };
            Goal { looks: Looks { at, confidence }, half_width: half_width.collect() }
        }
    }
}

/// Everything that counts, of cells that have not been given up.
pub fn ledger_of(plan: &Plan, state: &State, lossy: Lossy) -> Result<Ledger, Fault> {
    let runs = runs_of(state, lossy);
    let planned = plan.cells()?;
    let planned =
        planned.iter().filter(|cell| !is_refused(state, cell) && !state.has_given_up(cell));
    let mut cells: BTreeMap<Cell, design::Cell> = BTreeMap::new();
    for cell in planned.chain(runs.iter().map(|run| &run.cell)) {
        if !cells.contains_key(cell) {
            cells.insert(cell.clone(), cell_of(cell)?);
        }
    }
    // Without its reference a cell has values, and no ratio.
    let has_reference = |cell: &Cell| {
        let reference = Cell { tracer: plan.reference.tracer.clone(), ..cell.clone() };
        cells.contains_key(&reference)
    };
    let compared = cells.iter().filter(|(cell, _)| has_reference(cell)).map(|(_, of)| of.clone());
    let reference = Reference {
        arm: plan.reference.tracer.clone(),
        platform: Some(plan.reference.platform.clone()),
    };
    let mut layout = Layout::new(compared.collect(), &reference)?;
    compare_guests(&mut layout, plan)?;
    let mut ledger = Ledger::new(layout);
    for run in runs {
        take_in(&mut ledger, &run)?;
    }
    for (block, took_s) in &state.sentinels {
        ledger.sentinel(*block, *took_s)?;
    }
    Ok(ledger)
}

fn is_refused(state: &State, cell: &Cell) -> bool {
    state.refused.iter().any(|refused| refused.cell == *cell)
}

/// A run that has a result.
struct Measured<'a> {
    block: u32,
    cell: Cell,
    label: Label,
    result: &'a CellResult,
}

fn runs_of(state: &State, lossy_are: Lossy) -> Vec<Measured<'_>> {
    let mut runs = Vec::new();
    for (key, ended) in &state.ended {
        let Outcome::Measured(result) = &ended.outcome else { continue };
        let mut cell = key.cell.clone();
        if lossy_are == Lossy::Apart && result.lost_events() > 0 {
            cell.tracer = lossy(&cell.tracer);
        }
        runs.push(Measured { block: key.block, cell, label: key.label, result });
    }
    runs
}

/// The name of a run in the ledger.
pub fn id_of(cell: &Cell, label: Label) -> String {
    match label {
        Label::First => cell.to_string(),
        Label::Again => design::Cell::again_id(&cell.to_string()),
    }
}

fn take_in(ledger: &mut Ledger, run: &Measured<'_>) -> Result<(), Fault> {
    let id = id_of(&run.cell, run.label);
    let Some(metric) = run.result.metrics.first() else { return Ok(()) };
    if ledger.layout().cell(&id).is_none() {
        return Ok(());
    }
    if let Err(refusal) = ledger.record(run.block, &id, metric.value) {
        let exclusion = Exclusion { cause: Cause::Failed, evidence: refusal.why };
        ledger.exclude(run.block, &id, exclusion)?;
    }
    for exclusion in &run.result.excluded {
        ledger.exclude(run.block, &id, exclusion.clone())?;
    }
    Ok(())
}

fn cell_of(cell: &Cell) -> Result<design::Cell, Fault> {
    let about = cell.group.about()?;
    let (family, better) = nature_of(&about);
    Ok(design::Cell {
        platform: cell.platform.clone(),
        cache: cell.group.cache,
        workload: cell.group.workload.clone(),
        guests: cell.group.guests,
        ..design::Cell::new(cell.to_string(), cell.tracer.clone(), family, better)
    })
}

fn nature_of(about: &About) -> (Family, Better) {
    (about.family, about.metric.2)
}

/// Several machines with one.
fn compare_guests(layout: &mut Layout, plan: &Plan) -> Result<(), Fault> {
    let mut pairs = Vec::new();
    for cell in layout.cells().iter().filter(|cell| cell.label == Label::First) {
        let is_base = |base: &&design::Cell| {
            base.label == Label::First
                && base.guests == 1
                && (&base.platform, &base.workload, base.cache, &base.arm)
                    == (&cell.platform, &cell.workload, cell.cache, &cell.arm)
        };
        if cell.guests > 1
            && cell.arm == plan.reference.tracer
            && let Some(base) = layout.cells().iter().find(is_base)
        {
            pairs.push((cell.id.clone(), base.id.clone()));
        }
    }
    for (cell, base) in pairs {
        layout.add(&cell, &base)?;
    }
    Ok(())
}
