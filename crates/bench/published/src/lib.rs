//! Our results beside the papers' numbers: which of their shapes hold here, which do not, and which nothing here can speak to.
//!
//! # What
//! Every row of numbers that the papers print is in [`papers`], one folder each. A map beside the numbers says of every
//! row which cells speak to it and how, or why none can. [`compare`] looks the cells up in a [`Report`] and judges.
//!
//! # What is compared
//! Ratios of two cells, never absolute numbers: a machine of 2005 has other seconds. A ratio is written as *cost*: value
//! over base of times, base over value of rates, so that more than 1 is always slower. A layer is compared with the machine
//! that it is put on: Xen under emulation with the bare emulated machine, not with the hardware. Where no pair of ours
//! was compared directly, a chain of comparisons is multiplied, its errors added up ([`Figure::confidence`]).
//!
//! # The rule
//! *Theirs* is an interval: the printed ratio with 2.58 standard errors of a ratio of two means of three runs, from the
//! standard deviation they print, or with the error that the map states where they print none. From it a band:
//! - with an effect (1 is not in the interval): same direction, and of a third to three times its size ([`FACTOR`]);
//! - without one: no effect beyond their error, or beyond 1 % where that is more.
//!
//! *Ours* is the interval of the comparison, taken up to 1 if the effect lies below the noise floor. Then
//! - [`Agreement::Holds`]: the whole interval lies within the band;
//! - [`Agreement::DoesNotHold`]: no part of it does;
//! - [`Agreement::Unresolved`]: it straddles an edge, or there is no interval (fewer than 6 blocks) or no noise floor.
//!
//! A bound ("less than 3 %") is a band that is open on one side. A spread is judged by the interval of a standard deviation, a
//! limiter by the interval of the share of runs in which it was suspected. Nothing is judged without an interval.
//!
//! # Design constraints
//! - Every row has exactly one entry in its map; a test counts.
//! - Rows that their source contradicts are kept, with what is wrong with them, and left out.
//! - Of several cells that could speak, the first in the map that was measured does: the order is fixed beforehand.

mod candidates;
mod claims;
mod csv;
mod faces;
mod judge;
mod map;
mod measured;
mod model;
pub mod papers;
mod source;
mod theirs;

#[cfg(test)]
mod tests;

pub use faces::{csv_table, html_section, summary, text_table};
pub use judge::FACTOR;
pub use model::{Agreement, Counts, Figure, Ours, Row, Theirs};

use transect_bench_core::Fault;
use transect_bench_report::Report;

/// Every row of every paper beside what was measured. Rows are in the order of the papers and of their tables.
///
/// # Errors
/// A fault is in the data that this binary carries, and the crate's tests find it.
pub fn compare(report: &Report) -> Result<Vec<Row>, Fault> {
    compare_all(&[report])
}

/// The same with several sets of results, for instance of plans with different parameters: to each row the first of them
/// speaks that has its cells.
///
/// # Errors
/// See [`compare`].
pub fn compare_all(reports: &[&Report]) -> Result<Vec<Row>, Fault> {
    let mut rows = Vec::new();
    for paper in papers::all()? {
        for source in &paper.rows {
            rows.push(claims::row(&paper, source, reports)?);
        }
    }
    Ok(rows)
}
