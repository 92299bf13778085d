//! Two result sets beside each other: before and after, here and there.
//!
//! They were not run in the same blocks, so nothing cancels: the test is Mann–Whitney's, the interval the two-sample
//! Hodges–Lehmann shift's. What drifts between two runs is then taken for a difference; [`Basis::Ratios`] compares what
//! each set found *within* its blocks instead, and should be preferred wherever the question allows it.

use super::{
    MIN_BLOCKS, gate,
    layout::Relation,
    ledger::Ledger,
    summary::Summary,
    verdict::{Floor, Surprise, Verdict, judge},
};
use crate::statistics::{Interval, Method, hodges_lehmann, holm::holm, mann_whitney};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use transect_bench_core::{Better, Family, Kind, Refusal};

/// One set of results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultSet {
    /// What to call it.
    pub name: String,
    /// Everything that must agree: memory, CPUs, kernel, binaries, accelerator, governor, mitigations.
    pub configuration: BTreeMap<String, String>,
    /// By cell.
    pub cells: BTreeMap<String, Series>,
}

/// The values of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// The family in which it is corrected.
    pub family: Family,
    /// Which way the metric is good.
    pub better: Better,
    /// Logarithms of its costs.
    pub log_costs: Vec<f64>,
    /// Logarithms of its costs over those of its reference in the same block; empty for a reference.
    pub log_ratios: Vec<f64>,
    /// The noise floor that its set found.
    pub floor: Option<Floor>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// The cost itself. The whole machine is part of it.
    Costs,
    /// How much more it costs than its reference, which each set measured in the same blocks.
    Ratios,
}

/// How they are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// What is compared.
    pub basis: Basis,
    /// The confidence of the intervals, 0 to 1.
    pub confidence: f64,
    /// Names of the configuration that may differ, because they are what is compared.
    pub may_differ: BTreeSet<String>,
}

/// Two sets beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// How.
    pub terms: Terms,
    /// What differs in their configurations, and may: name, first, second.
    pub differing: Vec<(String, String, String)>,
    /// What both have.
    pub rows: Vec<Row>,
    /// Cells that only the first has.
    pub only_first: Vec<String>,
    /// Cells that only the second has.
    pub only_second: Vec<String>,
}

/// One cell of both.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The cell.
    pub cell: String,
    /// The family in which it is corrected.
    pub family: Family,
    /// Values in the first and the second.
    pub n: (usize, usize),
    /// Cost in the second over cost in the first, or of their ratios.
    pub ratio: Option<f64>,
    /// Its interval. `None` if there are too few values.
    pub interval: Option<(f64, f64)>,
    /// The confidence that the interval has.
    pub achieved: Option<f64>,
    /// Two-sided probability of the Mann–Whitney test.
    pub p: Option<f64>,
    /// How it was got.
    pub method: Option<Method>,
    /// The same after Holm's correction within the family.
    pub p_adjusted: Option<f64>,
    /// The higher one of the two sets' floors.
    pub floor: Option<Floor>,
    /// The word for it: the second against the first.
    pub verdict: Verdict,
}

impl ResultSet {
    /// Takes everything that counts out of a ledger and what was made of it. Second labels (A/A) stay behind: what
    /// they say is in the floor.
    #[must_use]
    pub fn of(
        name: impl Into<String>,
        configuration: BTreeMap<String, String>,
        ledger: &Ledger,
        summary: &Summary,
    ) -> Self {
        let again: BTreeSet<&str> = summary
            .contrasts
            .iter()
            .filter(|found| found.contrast.relation == Relation::Again)
            .map(|found| found.contrast.cell.as_str())
            .collect();
        let cells = summary
            .cells
            .iter()
            .filter(|found| !again.contains(found.cell.id.as_str()))
            .map(|found| {
                let cell = &found.cell;
                let costs = found.values.iter().map(|(_, value)| cell.log_cost(*value)).collect();
                let arm = summary.contrasts.iter().find(|contrast| {
                    contrast.contrast.cell == cell.id && contrast.contrast.relation == Relation::Arm
                });
                let ratios = arm.map_or_else(Vec::new, |arm| {
                    let (cell, base) = (&arm.contrast.cell, &arm.contrast.base);
                    let by_block = ledger.log_ratios(cell, base, u32::MAX);
                    by_block.into_iter().map(|(_, log)| log).collect()
                });
                let again = ledger.layout().again_of(cell);
                let floor = summary.contrasts.iter().find(|found| Some(&found.contrast) == again);
                let series = Series {
                    family: cell.family,
                    better: cell.better,
                    log_costs: costs,
                    log_ratios: ratios,
                    floor: floor.and_then(|found| found.floor),
                };
                (cell.id.clone(), series)
            })
            .collect();
        Self { name: name.into(), configuration, cells }
    }
}

impl Series {
    fn of(&self, basis: Basis) -> &[f64] {
        match basis {
            Basis::Costs => &self.log_costs,
            Basis::Ratios => &self.log_ratios,
        }
    }
}

/// Puts the second set beside the first.
///
/// # Errors
/// [`Kind::Different`] if their configurations differ in anything that may not, or a cell's metric does;
/// [`Kind::NoReference`] if they have nothing in common.
pub fn compare(
    first: &ResultSet,
    second: &ResultSet,
    terms: &Terms,
) -> Result<Comparison, Refusal> {
    let differing = differences(first, second, terms)?;
    let mut rows = Vec::new();
    for (id, before) in &first.cells {
        let Some(after) = second.cells.get(id) else { continue };
        if (before.family, before.better) != (after.family, after.better) {
            let why = "its metric differs between the sets: they measured different workloads";
            return Err(Refusal::new(Kind::Different, format!("comparing {id}"), why));
        }
        if !before.of(terms.basis).is_empty() || !after.of(terms.basis).is_empty() {
            rows.push(row(id, before, after, terms));
        }
    }
    if rows.is_empty() {
        let what = format!("comparing {} with {}", second.name, first.name);
        return Err(Refusal::new(Kind::NoReference, what, "the two sets have no cell in common"));
    }
    correct(&mut rows, 1.0 - terms.confidence);
    let only = |these: &ResultSet, those: &ResultSet| {
        these.cells.keys().filter(|id| !those.cells.contains_key(*id)).cloned().collect()
    };
    Ok(Comparison {
        terms: terms.clone(),
        differing,
        rows,
        only_first: only(first, second),
        only_second: only(second, first),
    })
}

/// Judges the second set at the gate: its costs over those of the first.
///
/// # Errors
/// As of [`compare`].
pub fn gate(
    gate: &gate::Gate,
    first: &ResultSet,
    second: &ResultSet,
    terms: &Terms,
) -> Result<gate::Report, Refusal> {
    let rows = compare(first, second, terms)?.rows;
    let each = gate.confidence_each(rows.len());
    Ok(gate.judge(rows.into_iter().map(|row| {
        let series = |set: &ResultSet| set.cells.get(&row.cell).map(|s| s.of(terms.basis).to_vec());
        let pair = series(first).zip(series(second));
        let interval = pair.and_then(|(x, y)| interval(&x, &y, each));
        (row.cell, interval.map(ratios))
    })))
}

fn differences(
    first: &ResultSet,
    second: &ResultSet,
    terms: &Terms,
) -> Result<Vec<(String, String, String)>, Refusal> {
    let names: BTreeSet<&String> =
        first.configuration.keys().chain(second.configuration.keys()).collect();
    let value = |set: &ResultSet, name: &str| {
        set.configuration.get(name).cloned().unwrap_or_else(|| "not recorded".to_owned())
    };
    let differing: Vec<(String, String, String)> = names
        .into_iter()
        .map(|name| (name.clone(), value(first, name), value(second, name)))
        .filter(|(_, before, after)| before != after)
        .collect();
    let forbidden: Vec<String> = differing
        .iter()
        .filter(|(name, ..)| !terms.may_differ.contains(name))
        .map(|(name, before, after)| format!("{name} is {before} and {after}"))
        .collect();
    if forbidden.is_empty() {
        return Ok(differing);
    }
    let what = format!("comparing {} with {}", second.name, first.name);
    Err(Refusal::new(Kind::Different, what, forbidden.join("; "))
        .mend("run both in the same way, or name the intended difference with --may-differ"))
}

fn row(id: &str, first: &Series, second: &Series, terms: &Terms) -> Row {
    let (before, after) = (first.of(terms.basis), second.of(terms.basis));
    let interval = interval(before, after, terms.confidence);
    let test = mann_whitney::test(before, after).filter(|_| interval.is_some());
    Row {
        cell: id.to_owned(),
        family: first.family,
        n: (before.len(), after.len()),
        ratio: hodges_lehmann::shift(before, after).map(f64::exp),
        interval: interval.map(ratios),
        achieved: interval.map(|interval| interval.achieved),
        p: test.map(|test| test.p),
        method: test.map(|test| test.method),
        p_adjusted: None,
        floor: first.floor.zip(second.floor).map(|(before, after)| before.or(after)),
        verdict: Verdict::TooFew,
    }
}

/// As with blocks, fewer than [`MIN_BLOCKS`] values on a side are points.
fn interval(first: &[f64], second: &[f64], confidence: f64) -> Option<Interval> {
    let is_enough = first.len().min(second.len()) >= MIN_BLOCKS;
    mann_whitney::interval(first, second, confidence).filter(|_| is_enough)
}

fn ratios(interval: Interval) -> (f64, f64) {
    (interval.low.exp(), interval.high.exp())
}

fn correct(rows: &mut [Row], level: f64) {
    let families: BTreeSet<Family> = rows.iter().map(|row| row.family).collect();
    for family in families {
        let mut these: Vec<&mut Row> =
            rows.iter_mut().filter(|row| row.family == family && row.p.is_some()).collect();
        let p: Vec<f64> = these.iter().filter_map(|row| row.p).collect();
        for (row, adjusted) in these.iter_mut().zip(holm(&p)) {
            row.p_adjusted = Some(adjusted);
        }
        for row in these {
            let (before, after) = row.n;
            let least = mann_whitney::least_p(before, after) * p.len() as f64;
            let surprise = Surprise { adjusted: row.p_adjusted, least, level };
            row.verdict = judge(row.ratio, row.interval, surprise, row.floor);
        }
    }
}
