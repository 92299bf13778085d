//! What a printed number amounts to: a cost ratio with its error.

use super::{
    map::{Base, Entry, Reading, Relation},
    model::Theirs,
    papers::Paper,
    source::Source,
};
use transect_bench_core::{Better, Fault};

/// Standard errors to each side of a printed ratio: 99 %.
const ERRORS: f64 = 2.58;
/// The least number of runs behind a mean that LTTng-Xen's paper states.
const RUNS: f64 = 3.0;

/// Reads a row.
pub(super) fn of(paper: &Paper, row: &Source, entry: &Entry) -> Result<Theirs, Fault> {
    let mut theirs = Theirs { value: row.value, unit: row.unit.clone(), ..Theirs::default() };
    let (Some(reading), Some(value)) = (entry.theirs, row.value) else {
        theirs.claim = claim(row, entry, None);
        return Ok(theirs);
    };
    let base = entry.base.as_ref().map(|base| base_row(paper, row, base)).transpose()?;
    let cost = cost_of(paper, row, value, reading, base)?;
    let noise = noise_of(paper, row, entry)?;
    theirs.cost = Some([cost, cost / (1.0 + noise), cost * (1.0 + noise)]);
    if !matches!(reading, Reading::SizeOfBase | Reading::AddedToNobody) {
        let better = metric_of(row, reading);
        theirs.percent = Some(percent(cost, better));
        theirs.speed = Some(100.0 / cost);
    }
    theirs.claim = claim(row, entry, theirs.cost.map(|cost| (cost, base)));
    Ok(theirs)
}

/// `100·(2 − value/base)` of times, `100·value/base` of rates.
pub(super) fn percent(cost: f64, better: Better) -> f64 {
    match better {
        Better::Less => 100.0 * (2.0 - cost),
        Better::More => 100.0 / cost,
    }
}

fn metric_of(row: &Source, reading: Reading) -> Better {
    match reading {
        Reading::SpeedPercent => Better::More,
        Reading::OfBase => row.better().unwrap_or(Better::Less),
        _ => Better::Less,
    }
}

/// The row that another one is relative to: the same but for the fields that the map names.
pub(super) fn base_row<'a>(
    paper: &'a Paper,
    row: &Source,
    base: &Base,
) -> Result<&'a Source, Fault> {
    let table = base.table.as_ref().unwrap_or(&row.table);
    let platform = base.platform.as_ref().unwrap_or(&row.platform);
    let state = base.state.as_ref().unwrap_or(&row.state);
    let params = base.params.as_ref().unwrap_or(&row.params);
    let metric = base.metric.as_ref().unwrap_or(&row.metric);
    let is_it = |other: &&Source| {
        let is_same =
            other.workload == row.workload && other.unit == row.unit && other.cache == row.cache;
        let is_there = [&other.table, &other.platform, &other.state, &other.params, &other.metric]
            == [table, platform, state, params, metric];
        is_same && is_there && other.flag.is_empty() && other.value.is_some()
    };
    let found: Vec<&Source> = paper.rows.iter().filter(is_it).collect();
    match found[..] {
        [base] => Ok(base),
        _ => Err(Fault::failed(format!(
            "{}/map.toml: {} base rows of {}: {}",
            paper.name,
            found.len(),
            row.table,
            row.label()
        ))),
    }
}

fn cost_of(
    paper: &Paper,
    row: &Source,
    value: f64,
    reading: Reading,
    base: Option<&Source>,
) -> Result<f64, Fault> {
    let needed = || {
        let what = format!("{}/map.toml: {}: {}", paper.name, row.table, row.label());
        base.and_then(|base| base.value).ok_or_else(|| Fault::failed(what + ": needs a base"))
    };
    let over =
        |alone: fn(f64) -> f64| alone(value) / base.and_then(|base| base.value).map_or(1.0, alone);
    Ok(match reading {
        Reading::OfBase => match row.better() {
            Some(Better::More) => needed()? / value,
            _ => value / needed()?,
        },
        Reading::SizeOfBase => value / needed()?,
        Reading::TwoMinusPercent => over(|value| 2.0 - value / 100.0),
        Reading::SpeedPercent => over(|value| 100.0 / value),
        Reading::SlowdownPercent => 1.0 + value / 100.0,
        Reading::CostFactor => value,
        Reading::AddedToNobody => {
            let none = Base { state: Some("none".to_owned()), ..Base::default() };
            let nobody = base_row(paper, row, &none)?.value.unwrap_or(0.0);
            (value - nobody) / (needed()? - nobody)
        }
    })
}

/// The relative error of a printed ratio: stated by the map, or from the standard deviation that the paper prints of the
/// same workload (on the native machine: it prints no other).
fn noise_of(paper: &Paper, row: &Source, entry: &Entry) -> Result<f64, Fault> {
    if let Some(percent) = entry.noise_percent {
        return Ok(percent / 100.0);
    }
    let of_workload = |other: &&Source| other.workload == row.workload && other.sigma.is_some();
    paper
        .rows
        .iter()
        .find(of_workload)
        .and_then(|row| Some(row.sigma? / row.value?))
        .map(|sigma| ERRORS * sigma * (2.0 / RUNS).sqrt())
        .ok_or_else(|| {
            Fault::failed(format!(
                "{}/map.toml: {}: {}: the paper prints no standard deviation, and the entry has no noise_percent",
                paper.name,
                row.table,
                row.label()
            ))
        })
}

fn claim(row: &Source, entry: &Entry, cost: Option<([f64; 3], Option<&Source>)>) -> String {
    let value = row.value.unwrap_or(f64::NAN);
    match entry.relation {
        Some(Relation::AtMost) => format!("costs at most {value} %"),
        Some(Relation::AtLeast) => format!("costs at least {value} %"),
        Some(Relation::Spread) => format!("standard deviation {value} %"),
        Some(Relation::MostSpreads) => format!("most standard deviations below {value} %"),
        Some(Relation::FallsMore) => "falls more with more machines".to_owned(),
        Some(Relation::Limiter) => format!("limited by: {}", row.limiter),
        _ => cost.map_or_else(String::new, |(cost, base)| ratio(row, entry, cost, base)),
    }
}

fn ratio(
    row: &Source,
    entry: &Entry,
    [cost, low, high]: [f64; 3],
    base: Option<&Source>,
) -> String {
    let what = match entry.relation {
        Some(Relation::Added) => "adds",
        Some(Relation::Size) => "size",
        _ => "cost",
    };
    let of = match base {
        Some(base) if base.platform == row.platform && base.state != row.state => {
            format!(" of {}", base.state)
        }
        Some(base) if base.platform == row.platform => format!(" of {}", base.metric),
        Some(base) if base.state == row.state => format!(" of {}", base.platform),
        Some(base) => format!(" of {}, {}", base.platform, base.state),
        None => String::new(),
    };
    format!("{what} ×{cost:.3} ({low:.3}–{high:.3}){of}")
}
