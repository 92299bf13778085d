//! Every cell, and every metric of it.

use super::{
    columns::{
        BETTER, CACHE, FAMILY, GUESTS, METRIC, PLATFORM, TRACER, UNIT, WORKLOAD, better_name,
        cell_values, counts, number, switch, text, unit_value,
    },
    table::{Column, Rows, Value},
};
use crate::{Report, ReportedCell, Suspect};
use transect_bench_core::{Better, Unit, protocol::TracerCost};

const COLUMNS: &[Column] = &[
    WORKLOAD,
    CACHE,
    GUESTS,
    PLATFORM,
    TRACER,
    FAMILY,
    METRIC,
    UNIT,
    BETTER,
    counts("runs", "runs with a result"),
    counts("counted", "runs that are counted"),
    number("median", "median of the counted runs"),
    number("quartile_low", "first quartile of the counted runs"),
    number("quartile_high", "third quartile of the counted runs"),
    text("limiter", "the suspected limiter"),
    counts("limiter_runs", "number of runs in which it was suspected"),
    counts("limiter_of_runs", "number of runs in which a limiter was looked for"),
    text("limiter_evidence", "the evidence from the median run"),
    number(
        "elasticity",
        "effect of halving the suspect: 1: the result follows in full, 0: no effect",
    ),
    number("elasticity_low", "lower end of its interval"),
    number("elasticity_high", "upper end of its interval"),
    text("tracer_version", "as the tracer prints it"),
    number("tracer_events", "events recorded, median over the runs"),
    number("tracer_bytes", "bytes written, median over the runs"),
    number("tracer_lost_events", "events lost, median over the runs"),
    number(
        "tracer_consumer_cpu_ns",
        "CPU time of the tracer's processes while they traced, median over the runs",
    ),
    number(
        "tracer_closing_cpu_ns",
        "their CPU time after the request to stop, median over the runs",
    ),
    counts("lossy_runs", "runs that lost events"),
    switch("is_lossy", "events were lost: a different arm than a lossless one"),
];

/// Every cell that was measured.
#[must_use]
pub fn cells(report: &Report) -> Rows {
    Rows { name: "cells", columns: COLUMNS, rows: report.cells.iter().map(row).collect() }
}

fn row(cell: &ReportedCell) -> Vec<Value> {
    let quartile = |nth: usize| Value::maybe_number(cell.quartiles.map(|both| both[nth]));
    let mut row = cell_values(&cell.cell).to_vec();
    row.extend([
        Value::text(&cell.family),
        Value::text(&cell.metric),
        unit_value(cell.unit),
        Value::text(better_name(cell.better)),
        Value::Count(cell.points.len() as u64),
        Value::Count(cell.counted() as u64),
        Value::maybe_number(cell.median),
        quartile(0),
        quartile(1),
    ]);
    row.extend(limiter(cell.limiter.as_ref()));
    row.extend(tracer(cell.tracer.as_ref()));
    row.extend([Value::Count(cell.lossy_runs.into()), Value::Switch(cell.lossy_runs > 0)]);
    row
}

fn limiter(suspect: Option<&Suspect>) -> [Value; 7] {
    let Some(suspect) = suspect else {
        return std::array::from_fn(|_| Value::Missing);
    };
    let elasticity = |nth: usize| Value::maybe_number(suspect.elasticity.map(|all| all[nth]));
    [
        Value::text(&suspect.name),
        Value::Count(suspect.runs.into()),
        Value::Count(suspect.of_runs.into()),
        Value::text(&suspect.evidence),
        elasticity(0),
        elasticity(1),
        elasticity(2),
    ]
}

fn tracer(cost: Option<&TracerCost>) -> [Value; 6] {
    let Some(cost) = cost else {
        return std::array::from_fn(|_| Value::Missing);
    };
    let number = |count: Option<u64>| Value::maybe_number(count.map(|count| count as f64));
    [
        Value::text(&cost.version),
        number(cost.events),
        number(cost.bytes),
        number(cost.lost_events),
        number(cost.consumer_cpu_ns),
        number(cost.closing_cpu_ns),
    ]
}

const METRIC_COLUMNS: &[Column] = &[
    WORKLOAD,
    CACHE,
    GUESTS,
    PLATFORM,
    TRACER,
    FAMILY,
    METRIC,
    UNIT,
    BETTER,
    switch("is_primary", "is it the metric that the comparisons use?"),
    number("median", "median of the counted runs"),
];

/// Every metric of every cell.
#[must_use]
pub fn metrics(report: &Report) -> Rows {
    let rows = report.cells.iter().flat_map(metric_rows).collect();
    Rows { name: "metrics", columns: METRIC_COLUMNS, rows }
}

fn metric_rows(cell: &ReportedCell) -> Vec<Vec<Value>> {
    let primary = metric_row(cell, &cell.metric, true, cell.median, cell.unit, cell.better);
    let other = |(name, &(median, unit, better)): (&String, &(f64, Unit, Better))| {
        metric_row(cell, name, false, Some(median), unit, better)
    };
    std::iter::once(primary).chain(cell.others.iter().map(other)).collect()
}

fn metric_row(
    cell: &ReportedCell,
    name: &str,
    is_primary: bool,
    median: Option<f64>,
    unit: Unit,
    better: Better,
) -> Vec<Value> {
    let mut row = cell_values(&cell.cell).to_vec();
    row.extend([
        Value::text(&cell.family),
        Value::text(name),
        unit_value(unit),
        Value::text(better_name(better)),
        Value::Switch(is_primary),
        Value::maybe_number(median),
    ]);
    row
}
