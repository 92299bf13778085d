//! Claims about spreads, and about what held a workload back.

use super::{
    super::{
        candidates::Candidate,
        judge::{self, Band},
        measured,
        model::{Agreement, Figure, Ours},
        source::Source,
    },
    judged::{Judged, silent},
    kinds::needed,
};
use transect_bench_limiter::Limiter;
use transect_bench_report::{Report, ReportedCell, Suspect};
use transect_bench_run::plan::Label;

/// Runs below which nothing is said.
const LEAST_RUNS: u32 = 6;
/// Two-sided 95 % of a normal variable.
const NORMAL: f64 = 1.96;

/// The relative standard deviation of a cell's runs, percent.
pub(super) fn spread(reports: &[&Report], works: &[Vec<Candidate>], band: Band) -> Judged {
    let pairs = works.first().map_or(&[][..], Vec::as_slice);
    let mut cells = pairs
        .iter()
        .flat_map(|pair| reports.iter().filter_map(move |report| measured::cell(report, pair)));
    if let Some(cell) = cells.next() {
        let figure = deviation_percent(cell);
        let agrees = figure.map_or_else(|| too_few(cell), |figure| judge::within(band, figure));
        let ours = Some(ours(cell, "standard deviation, %", figure));
        return Judged { ours, agrees, note: String::new() };
    }
    silent(needed(pairs))
}

/// The share of cells of these platforms, under nobody, whose standard deviation is below the claim's.
pub(super) fn most_spreads(reports: &[&Report], on: &[String], source: &Source) -> Judged {
    let limit = source.value.unwrap_or(0.0);
    let is_asked = |cell: &&ReportedCell| {
        cell.cell.tracer == "none"
            && cell.cell.group.guests == 1
            && on.contains(&cell.cell.platform)
    };
    let cells: Vec<&ReportedCell> =
        reports.iter().flat_map(|report| &report.cells).filter(is_asked).collect();
    let known: Vec<Figure> = cells.iter().filter_map(|cell| deviation_percent(cell)).collect();
    let Some(first) = cells.first() else {
        let cells = on.iter().map(|platform| format!("several workloads on {platform}"));
        return silent(Agreement::NotMeasured { cells: cells.collect() });
    };
    if known.len() < LEAST_RUNS as usize {
        let why = format!(
            "{} cells with {LEAST_RUNS} runs or more; a majority needs at least {LEAST_RUNS} cells",
            known.len()
        );
        return silent(Agreement::Unresolved { why });
    }
    let below = known.iter().filter(|figure| figure.high < limit).count();
    let above = known.iter().filter(|figure| figure.low > limit).count();
    let share = |count: usize| whole(count) / whole(known.len());
    let figure = Figure {
        value: share(known.iter().filter(|figure| figure.value < limit).count()),
        low: share(below),
        high: share(known.len() - above),
        confidence: 0.95,
        runs: known.iter().map(|figure| figure.runs).min().unwrap_or(0),
        floor: None,
        links: 0,
    };
    let agrees = judge::within(Band::from(0.5), figure);
    let note = format!("over {} cells of these platforms, the first one named", known.len());
    Judged { ours: Some(ours(first, "cells below the limit", Some(figure))), agrees, note }
}

/// The share of runs in which one of the named suspects held a cell back.
pub(super) fn limiter(
    reports: &[&Report],
    works: &[Vec<Candidate>],
    names: &[String],
    theirs: &str,
) -> Judged {
    let pairs = works.first().map_or(&[][..], Vec::as_slice);
    for pair in pairs {
        for cell in reports.iter().filter_map(|report| measured::cell(report, pair)) {
            let Some(suspect) = &cell.limiter else { continue };
            return of_suspect(cell, suspect, names, theirs);
        }
    }
    silent(needed(pairs))
}

fn of_suspect(cell: &ReportedCell, suspect: &Suspect, names: &[String], theirs: &str) -> Judged {
    let kind = Limiter::kind_of_name(&suspect.name);
    let is_named = names.iter().any(|name| name == kind);
    // What was suspected in the other runs is not kept: it may have been a named one in all of them.
    let most =
        if is_named { suspect.runs } else { suspect.of_runs - suspect.runs.min(suspect.of_runs) };
    let figure = (suspect.of_runs >= LEAST_RUNS).then(|| wilson(most, suspect.of_runs));
    let agrees = match figure {
        None => Agreement::Unresolved {
            why: format!("{} runs: a judgement needs {LEAST_RUNS}", suspect.of_runs),
        },
        Some(figure) if !is_named && figure.high >= 0.5 => Agreement::Unresolved {
            why: format!("{} in {} of {} runs", suspect.name, suspect.runs, suspect.of_runs),
        },
        Some(figure) => judge::within(Band::from(0.5), figure),
    };
    let note = format!("theirs: {theirs}; ours: {} ({})", suspect.name, suspect.evidence);
    Judged { ours: Some(ours(cell, "runs with this limiter", figure)), agrees, note }
}

fn ours(cell: &ReportedCell, what: &'static str, figure: Option<Figure>) -> Ours {
    Ours { cell: cell.cell.clone(), reference: None, what, figure, percent: None, speed: None }
}

fn too_few(cell: &ReportedCell) -> Agreement {
    let why = format!("{}: fewer than {LEAST_RUNS} runs", cell.cell);
    Agreement::Unresolved { why }
}

/// The relative standard deviation, percent, with the 95 % interval that it has if the values are normal.
fn deviation_percent(cell: &ReportedCell) -> Option<Figure> {
    let counts = |point: &&transect_bench_report::Point| {
        point.excluded.is_empty() && point.label == Label::First && point.value.is_finite()
    };
    let values: Vec<f64> = cell.points.iter().filter(counts).map(|point| point.value).collect();
    let runs = u32::try_from(values.len()).ok().filter(|runs| *runs >= LEAST_RUNS)?;
    let mean = values.iter().sum::<f64>() / f64::from(runs);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let free = f64::from(runs - 1);
    let percent = |squares: f64| 100.0 * squares.sqrt() / mean.abs();
    (mean != 0.0).then(|| Figure {
        value: percent(squares / free),
        low: percent(squares / chi_squared(free, NORMAL)),
        high: percent(squares / chi_squared(free, -NORMAL)),
        confidence: 0.95,
        runs,
        floor: None,
        links: 0,
    })
}

/// The quantile of χ² that belongs to a normal quantile (Wilson and Hilferty 1931; 4 % too small
/// at worst from 5 degrees of freedom at 95 %, which makes the interval of a standard deviation 2 % too wide).
fn chi_squared(free: f64, normal: f64) -> f64 {
    let part = 2.0 / (9.0 * free);
    free * (1.0 - part + normal * part.sqrt()).powi(3)
}

/// Wilson's 95 % interval of a share.
fn wilson(count: u32, of: u32) -> Figure {
    let (count, all) = (f64::from(count), f64::from(of));
    let share = count / all;
    let square = NORMAL * NORMAL;
    let middle = (share + square / (2.0 * all)) / (1.0 + square / all);
    let half = NORMAL / (1.0 + square / all)
        * (share * (1.0 - share) / all + square / (4.0 * all * all)).sqrt();
    Figure {
        value: share,
        low: (middle - half).max(0.0),
        high: (middle + half).min(1.0),
        confidence: 0.95,
        runs: of,
        floor: None,
        links: 0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of cells")]
fn whole(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against tables: χ² at 2.5 and 97.5 % with 9 degrees of freedom is 2.700 and 19.023; of 5: 0.831 and 12.833.
    #[test]
    fn chi_squared_is_near_its_table() {
        for (free, normal, table) in [
            (9.0, -NORMAL, 2.700),
            (9.0, NORMAL, 19.023),
            (5.0, -NORMAL, 0.831),
            (5.0, NORMAL, 12.833),
        ] {
            let found = chi_squared(free, normal);
            assert!((found / table - 1.0).abs() < 0.042, "{free}: {found} against {table}");
        }
    }

    /// 8 of 10: 0.4902 to 0.9433 (Wilson 1927, as any table of it has).
    #[test]
    fn wilson_is_its_table() {
        let figure = wilson(8, 10);
        assert!((figure.low - 0.4902).abs() < 1e-3 && (figure.high - 0.9433).abs() < 1e-3);
    }
}
