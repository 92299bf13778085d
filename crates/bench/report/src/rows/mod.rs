//! Flat rows: what spreadsheets, data frames and SQL want. CSV is written here; Parquet is made of the same rows.
//!
//! | table | a row is |
//! |---|---|
//! | [`runs`] | one measured run: every raw point, those that do not count too |
//! | [`cells`] | one cell: its medians, limiter, tracer |
//! | [`metrics`] | one metric of one cell, the primary one too |
//! | [`comparisons`] | one cell compared with one reference |
//! | [`machines`] | one kind of machine that was opened |
//!
//! Values are in the unit that the row names, and never rounded: a number in CSV is the shortest decimal that reads back
//! as the same number. What is unknown or does not apply is empty in CSV and null in Parquet.

mod cells;
mod comparisons;
mod csv;
mod machines;
mod runs;

pub use cells::{cells, metrics};
pub use comparisons::comparisons;
pub use machines::machines;
pub use runs::runs;

use super::Report;
use transect_bench_core::{Better, Unit};
use transect_bench_run::plan::Cell;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UTF-8.
    Text,
    /// A count, `u64`.
    Count,
    /// A number, `f64`, finite.
    Number,
    /// True or false.
    Switch,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name: lower case, with the unit where it has one of its own.
    pub name: &'static str,
    /// What it holds; every value of it may be missing.
    pub kind: Kind,
    /// What that is.
    pub about: &'static str,
}

/// A value; its kind is its column's.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Unknown, or does not apply.
    Missing,
    /// Of a [`Kind::Text`] column.
    Text(String),
    /// Of a [`Kind::Count`] column.
    Count(u64),
    /// Of a [`Kind::Number`] column.
    Number(f64),
    /// Of a [`Kind::Switch`] column.
    Switch(bool),
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// Its name, for files: `runs`.
    pub name: &'static str,
    columns: &'static [Column],
    rows: Vec<Vec<Value>>,
}

impl Rows {
    /// Its columns.
    #[must_use]
    pub const fn columns(&self) -> &'static [Column] {
        self.columns
    }

    /// Its rows; each has one value for every column.
    #[must_use]
    pub fn rows(&self) -> &[Vec<Value>] {
        &self.rows
    }
}

/// Every table of a report.
#[must_use]
pub fn all(report: &Report) -> [Rows; 5] {
    [runs(report), cells(report), metrics(report), comparisons(report), machines(report)]
}

impl Value {
    fn text(value: impl Into<String>) -> Self {
        Self::Text(value.into())
    }

    fn maybe_count(value: Option<u64>) -> Self {
        value.map_or(Self::Missing, Self::Count)
    }

    fn maybe_number(value: Option<f64>) -> Self {
        value.map_or(Self::Missing, Self::Number)
    }
}

const fn text(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Text, about }
}

const fn number(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Number, about }
}

const fn counts(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Count, about }
}

const fn switch(name: &'static str, about: &'static str) -> Column {
    Column { name, kind: Kind::Switch, about }
}

const WORKLOAD: Column = text("workload", "the workload's name");
const CACHE: Column = text("cache", "state of the page cache: any, cold, hot, displaced");
const GUESTS: Column = counts("guests", "machines that run the workload together");
const PLATFORM: Column = text("platform", "the platform that ran it");
const TRACER: Column = text("tracer", "the tracer arm; none: no tracer");
const FAMILY: Column = text("family", "the workload's family");
const METRIC: Column = text("metric", "the metric's name");
const UNIT: Column = text("unit", "the unit of values: s, ns, 1/s, B/s, B, 1, share");
const BETTER: Column = text("better", "the better direction: less, more");

fn cell_values(cell: &Cell) -> [Value; 5] {
    [
        Value::text(&cell.group.workload),
        Value::text(cell.group.cache.name()),
        Value::Count(cell.group.guests.into()),
        Value::text(&cell.platform),
        Value::text(&cell.tracer),
    ]
}

const fn better_name(better: Better) -> &'static str {
    match better {
        Better::Less => "less",
        Better::More => "more",
    }
}

fn unit_value(unit: Unit) -> Value {
    Value::text(super::number::unit_name(unit))
}
