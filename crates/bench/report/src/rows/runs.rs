//! Every run.

use super::{
    columns::{
        BETTER, CACHE, FAMILY, GUESTS, METRIC, PLATFORM, TRACER, UNIT, WORKLOAD, better_name,
        cell_values, counts, number, switch, text, unit_value,
    },
    table::{Column, Rows, Value},
};
use crate::{Point, Report, ReportedCell};
use transect_bench_run::plan::Label;

const COLUMNS: &[Column] = &[
    WORKLOAD,
    CACHE,
    GUESTS,
    PLATFORM,
    TRACER,
    FAMILY,
    counts("block", "the block that contains the run, from 0"),
    text("label", "first, or again: the second measurement of the reference (A/A)"),
    counts("start_unix_ns", "wall clock at its start, ns since 1970"),
    METRIC,
    UNIT,
    BETTER,
    number("value", "the primary metric's value"),
    switch("counts", "is it counted?"),
    text("excluded", "recorded causes of its exclusion, joined by semicolons"),
];

/// Every run that has a result, cell by cell, in order of time.
#[must_use]
pub fn runs(report: &Report) -> Rows {
    let of_cell = |cell| -> Vec<Vec<Value>> { run_rows(cell) };
    Rows { name: "runs", columns: COLUMNS, rows: report.cells.iter().flat_map(of_cell).collect() }
}

fn run_rows(cell: &ReportedCell) -> Vec<Vec<Value>> {
    cell.points.iter().map(|point| row(cell, point)).collect()
}

fn row(cell: &ReportedCell, point: &Point) -> Vec<Value> {
    let label = match point.label {
        Label::First => "first",
        Label::Again => "again",
    };
    let excluded = match point.excluded.as_slice() {
        [] => Value::Missing,
        causes => Value::Text(causes.join("; ")),
    };
    let mut row = cell_values(&cell.cell).to_vec();
    row.extend([
        Value::text(&cell.family),
        Value::Count(point.block.into()),
        Value::text(label),
        Value::Count(point.unix_ns),
        Value::text(&cell.metric),
        unit_value(cell.unit),
        Value::text(better_name(cell.better)),
        Value::Number(point.value),
        Value::Switch(point.excluded.is_empty()),
        excluded,
    ]);
    row
}
