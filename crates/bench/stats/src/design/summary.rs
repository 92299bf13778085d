//! What came out of a ledger.

use super::{
    cell::Cell,
    decide::Goal,
    estimate::Estimate,
    layout::{Contrast, Layout, Relation},
    ledger::{Entry, Exclusion, Ledger},
    sentinel::SentinelSummary,
    verdict::{Floor, Surprise, Verdict, judge},
};
use crate::statistics::{holm::holm, quantile, relative, signed_rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_bench_core::{Better, Family, Kind, Refusal};

/// Everything that may be said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Every cell for itself.
    pub cells: Vec<CellSummary>,
    /// Every comparison.
    pub contrasts: Vec<ContrastSummary>,
    /// The machine itself.
    pub sentinels: Option<SentinelSummary>,
    /// What cannot be said, and why.
    pub refusals: Vec<Refusal>,
}

/// The values of one cell, in the metric's own unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellSummary {
    /// The cell.
    pub cell: Cell,
    /// Values that count.
    pub n: usize,
    /// Their median.
    pub median: Option<f64>,
    /// First and third quartile.
    pub quartiles: Option<(f64, f64)>,
    /// Smallest and largest.
    pub range: Option<(f64, f64)>,
    /// Every value that counts, by block.
    pub values: Vec<(u32, f64)>,
    /// What does not count, by block, and why.
    pub excluded: Vec<(u32, Exclusion)>,
}

/// One comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContrastSummary {
    /// What is compared.
    pub contrast: Contrast,
    /// The family in which it is corrected.
    pub family: Family,
    /// Cost of the cell over cost of the base.
    pub estimate: Estimate,
    /// The same as the papers print it.
    pub relative: Option<Relative>,
    /// What the machine makes of nothing; of an A/A comparison its own.
    pub floor: Option<Floor>,
    /// The probability after Holm's correction within the family. `None` for A/A, which asks nothing.
    pub p_adjusted: Option<f64>,
    /// The word for it.
    pub verdict: Verdict,
}

/// How papers print a cell beside its base. Percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Relative {
    /// LTTng-Xen's: `100·(2 − value/base)` of times, `100·value/base` of rates.
    pub lttng_percent: f64,
    /// Share of the base's speed that is left: `100·base/value` of times, `100·value/base` of rates.
    pub speed_percent: f64,
}

impl Relative {
    /// Of a ratio of costs.
    #[must_use]
    pub fn of(ratio: f64, better: Better) -> Self {
        let speed_percent = relative::speed_left(ratio, 1.0);
        let lttng_percent = match better {
            Better::Less => relative::two_minus(ratio, 1.0),
            Better::More => speed_percent,
        };
        Self { lttng_percent, speed_percent }
    }
}

/// The ratio of any two cells of a ledger, paired by block.
///
/// # Errors
/// A cell that is not there.
pub fn estimate_pair(
    ledger: &Ledger,
    cell: &str,
    base: &str,
    confidence: f64,
) -> Result<Estimate, Refusal> {
    ledger.layout().find(cell)?;
    ledger.layout().find(base)?;
    Ok(Estimate::paired(&ledger.log_ratios(cell, base, u32::MAX), confidence))
}

/// Says everything that may be said of a ledger. The goal is the one it was run with: it decides the confidence.
#[must_use]
pub fn summarise(ledger: &Ledger, goal: &Goal) -> Summary {
    let layout = ledger.layout();
    let mut contrasts: Vec<ContrastSummary> = layout
        .contrasts()
        .iter()
        .filter_map(|contrast| measure(ledger, contrast, goal.looks.confidence))
        .collect();
    let floors: Vec<Option<Floor>> =
        contrasts.iter().map(|found| floor_of(layout, &contrasts, &found.contrast)).collect();
    for (found, floor) in contrasts.iter_mut().zip(floors) {
        found.floor = floor;
    }
    let questions = correct(&mut contrasts);
    for found in &mut contrasts {
        let asked = found.p_adjusted.and_then(|_| questions.get(&found.family)).copied();
        found.verdict = verdict_of(found, asked.unwrap_or(1), goal.level());
    }
    Summary {
        cells: layout.cells().iter().map(|cell| describe(ledger, cell)).collect(),
        refusals: refusals(&contrasts),
        contrasts,
        sentinels: SentinelSummary::of(ledger),
    }
}

fn measure(ledger: &Ledger, contrast: &Contrast, confidence: f64) -> Option<ContrastSummary> {
    let cell = ledger.layout().cell(&contrast.cell)?;
    let ratios = ledger.log_ratios(&contrast.cell, &contrast.base, u32::MAX);
    let estimate = Estimate::paired(&ratios, confidence).with_check(u64::from(u32::MAX));
    Some(ContrastSummary {
        contrast: contrast.clone(),
        family: cell.family,
        relative: estimate.ratio.map(|ratio| Relative::of(ratio, cell.better)),
        estimate,
        floor: None,
        p_adjusted: None,
        verdict: Verdict::TooFew,
    })
}

/// The higher of the floors of the two cells' groups; none if one of them has none.
fn floor_of(layout: &Layout, all: &[ContrastSummary], of: &Contrast) -> Option<Floor> {
    let floor = |id: &str| {
        let again = layout.again_of(layout.cell(id)?)?;
        Floor::of(&all.iter().find(|found| found.contrast == *again)?.estimate)
    };
    Some(floor(&of.cell)?.or(floor(&of.base)?))
}

/// Holm's correction within each family, of everything but A/A. Returns how many questions each family asks.
fn correct(contrasts: &mut [ContrastSummary]) -> BTreeMap<Family, usize> {
    let mut families: BTreeMap<Family, Vec<(usize, f64)>> = BTreeMap::new();
    for (at, found) in contrasts.iter().enumerate() {
        if let Some(p) = found.estimate.p.filter(|_| found.contrast.relation != Relation::Again) {
            families.entry(found.family).or_default().push((at, p));
        }
    }
    let questions = families.iter().map(|(family, these)| (*family, these.len())).collect();
    for family in families.into_values() {
        let (places, p): (Vec<usize>, Vec<f64>) = family.into_iter().unzip();
        for (at, adjusted) in places.into_iter().zip(holm(&p)) {
            contrasts[at].p_adjusted = Some(adjusted);
        }
    }
    questions
}

fn verdict_of(found: &ContrastSummary, questions: usize, level: f64) -> Verdict {
    let estimate = &found.estimate;
    let interval = estimate.low.zip(estimate.high);
    let adjusted = found.p_adjusted.or(estimate.p);
    let least = signed_rank::least_p(estimate.n) * questions as f64;
    judge(estimate.ratio, interval, Surprise { adjusted, least, level }, found.floor)
}

fn describe(ledger: &Ledger, cell: &Cell) -> CellSummary {
    let entries = || {
        let blocks = ledger.blocks().iter();
        blocks.filter_map(|(at, block)| Some((*at, block.entries.get(&cell.id)?)))
    };
    let values: Vec<(u32, f64)> =
        entries().filter_map(|(at, entry)| Some((at, Entry::counted(entry)?))).collect();
    let sorted = quantile::sorted(&values.iter().map(|(_, value)| *value).collect::<Vec<_>>());
    let at = |q| quantile::of_sorted(&sorted, q);
    CellSummary {
        cell: cell.clone(),
        n: values.len(),
        median: at(0.5),
        quartiles: at(0.25).zip(at(0.75)),
        range: at(0.0).zip(at(1.0)),
        values,
        excluded: entries()
            .filter_map(|(at, entry)| Some((at, entry.exclusion.clone()?)))
            .collect(),
    }
}

/// A comparison with an interval and without a floor is not to be published.
fn refusals(contrasts: &[ContrastSummary]) -> Vec<Refusal> {
    contrasts
        .iter()
        .filter(|found| found.floor.is_none() && found.estimate.low.is_some())
        .map(|found| {
            Refusal::new(
                Kind::NoReference,
                format!("a verdict on {} / {}", found.contrast.cell, found.contrast.base),
                "the noise floor is unknown: the reference has too few measurements under its second label (A/A)",
            )
            .mend("let the run complete its blocks")
        })
        .collect()
}
