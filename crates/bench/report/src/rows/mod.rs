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
mod columns;
mod comparisons;
mod csv;
mod machines;
mod runs;
mod table;

pub use cells::{cells, metrics};
pub use comparisons::comparisons;
pub use machines::machines;
pub use runs::runs;
pub use table::{Column, Kind, Rows, Value};

use crate::Report;

/// Every table of a report.
#[must_use]
pub fn all(report: &Report) -> [Rows; 5] {
    [runs(report), cells(report), metrics(report), comparisons(report), machines(report)]
}
