//! A pair of cells in a report: their cost ratio, over a chain of comparisons where there is no direct one.

use super::{candidates::Candidate, model::Figure};
use std::collections::VecDeque;
use transect_bench_core::Better;
use transect_bench_report::{Comparison, Report, ReportedCell};
use transect_bench_run::plan::{Cell, Plan};

/// The most comparisons that are multiplied.
const LONGEST_CHAIN: usize = 3;

/// What a report has of a pair.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// Nothing.
    Missing,
    /// It, with its interval, and which way the metric is good.
    Cost(Figure, Better),
    /// It was measured, and cannot be used.
    Unusable(String),
}

/// Looks a pair up.
pub(super) fn cost(report: &Report, pair: &Candidate) -> Found {
    if !has_params(report, pair) {
        return Found::Missing;
    }
    let Some(chain) = chain(report, &pair.cell, &pair.reference) else { return Found::Missing };
    if let Some(why) = cannot_be_used(report, pair) {
        return Found::Unusable(why);
    }
    let better = chain.first().map_or(Better::Less, |(comparison, _)| comparison.better);
    let mut product: Option<Figure> = None;
    for (comparison, is_forward) in chain {
        let Some(link) = link(comparison, is_forward) else {
            return Found::Unusable(format!(
                "{} of {} with {}: no interval below 6",
                blocks(comparison.ratios.len()),
                comparison.cell,
                comparison.reference
            ));
        };
        product = Some(product.map_or(link, |product| times(product, link)));
    }
    product.map_or(Found::Missing, |figure| Found::Cost(figure, better))
}

fn blocks(count: usize) -> String {
    if count == 1 { "1 block".to_owned() } else { format!("{count} blocks") }
}

/// The cell as reported, if it was measured with the parameters of the pair.
pub(super) fn cell<'a>(report: &'a Report, pair: &Candidate) -> Option<&'a ReportedCell> {
    let found = report.cells.iter().find(|found| found.cell == pair.cell)?;
    has_params(report, pair).then_some(found)
}

/// Was the workload measured with these parameters? A report without a readable plan has none.
fn has_params(report: &Report, pair: &Candidate) -> bool {
    if pair.params.is_empty() {
        return true;
    }
    let Ok(plan) = Plan::parse(&report.plan, &report.name) else { return false };
    let has = plan.job(&pair.cell, String::new()).params;
    pair.params.iter().all(|(name, value)| has.get(name) == Some(value))
}

/// Why two platforms are not to be compared: one of them is emulated. A platform that a report says nothing of is not asked.
pub(super) fn emulator_with_hardware(report: &Report, one: &str, other: &str) -> Option<String> {
    let is_emulated = |name: &str| {
        let found = report.platforms.iter().find(|platform| platform.name == name)?;
        Some(!found.emulated.is_empty())
    };
    let (this, that) = (is_emulated(one)?, is_emulated(other)?);
    (this != that).then(|| {
        format!(
            "of {one} and {other} one is emulated and one is not: an emulator is not compared with hardware"
        )
    })
}

fn cannot_be_used(report: &Report, pair: &Candidate) -> Option<String> {
    if let Some(why) = emulator_with_hardware(report, &pair.cell.platform, &pair.reference.platform)
    {
        return Some(why);
    }
    let lossy = |cell: &Cell| {
        let found = report.cells.iter().find(|found| found.cell == *cell)?;
        (found.lossy_runs > 0).then(|| {
            format!(
                "{cell}: events were lost in {} runs, which makes it another arm",
                found.lossy_runs
            )
        })
    };
    lossy(&pair.cell).or_else(|| lossy(&pair.reference))
}

/// The shortest chain of comparisons from a cell to another; each with whether it is taken as it stands.
fn chain<'a>(report: &'a Report, from: &'a Cell, to: &Cell) -> Option<Vec<(&'a Comparison, bool)>> {
    let mut queue = VecDeque::from([(from, Vec::new())]);
    while let Some((at, path)) = queue.pop_front() {
        if path.len() == LONGEST_CHAIN {
            continue;
        }
        for (comparison, is_forward) in edges(report, at) {
            let next = if is_forward { &comparison.reference } else { &comparison.cell };
            let mut longer: Vec<(&Comparison, bool)> = path.clone();
            longer.push((comparison, is_forward));
            if next == to {
                return Some(longer);
            }
            queue.push_back((next, longer));
        }
    }
    None
}

fn edges<'a>(
    report: &'a Report,
    at: &'a Cell,
) -> impl Iterator<Item = (&'a Comparison, bool)> + 'a {
    let ends = |comparison: &'a Comparison| {
        let is_itself = comparison.cell == comparison.reference;
        let forward = (!is_itself && comparison.cell == *at).then_some((comparison, true));
        forward.or((!is_itself && comparison.reference == *at).then_some((comparison, false)))
    };
    report.comparisons.iter().filter_map(ends)
}

/// A comparison as cost, in either direction.
fn link(comparison: &Comparison, is_forward: bool) -> Option<Figure> {
    let estimate = comparison.estimate?;
    let figure = Figure {
        value: estimate.ratio,
        low: estimate.low,
        high: estimate.high,
        confidence: estimate.confidence,
        runs: estimate.blocks,
        floor: comparison.floor,
        links: 1,
    };
    let is_cost = comparison.better == Better::Less;
    Some(if is_cost == is_forward { figure } else { inverse(figure) })
}

/// The same, the other way round.
pub(super) fn inverse(figure: Figure) -> Figure {
    Figure { value: 1.0 / figure.value, low: 1.0 / figure.high, high: 1.0 / figure.low, ..figure }
}

/// Both together: whatever one of them may miss, the product may.
pub(super) fn times(one: Figure, other: Figure) -> Figure {
    Figure {
        value: one.value * other.value,
        low: one.low * other.low,
        high: one.high * other.high,
        confidence: (one.confidence + other.confidence - 1.0).max(0.0),
        runs: one.runs.min(other.runs),
        floor: one.floor.zip(other.floor).map(|(one, other)| (1.0 + one) * (1.0 + other) - 1.0),
        links: one.links + other.links,
    }
}
