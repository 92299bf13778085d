//! Aligned columns for people.
//!
//! Widths are those of the first rows; rows beyond, where all are wanted, keep them as far as
//! they fit. On a terminal only so many rows are shown, and how many more there are is said.

use super::batch_writer::BatchWriter;
use crate::error::QueryError;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::io::Write;
use transect_model::escape::terminal;

/// How much of a result is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Rows shown; all if none.
    pub rows: Option<usize>,
    /// Columns of the terminal: wider lines are cut. Not cut if none.
    pub width: Option<usize>,
}

/// Rows that widths are taken from.
const SAMPLE_ROWS: usize = 1000;
/// Rows beyond the shown ones that are counted before it is only said that there are more.
const COUNT_ROWS: usize = 1_000_000;
/// No column is padded to more than this.
const MAX_WIDTH: usize = 60;
/// What stands for null, as in `transect report`.
const NULL: &str = "–";

/// A table on its way out.
pub(crate) struct Table<W> {
    to: W,
    limits: Limits,
    names: Vec<String>,
    is_number: Vec<bool>,
    /// Rows not yet written, while widths are found.
    sample: Vec<Vec<String>>,
    widths: Option<Vec<usize>>,
    rows: usize,
}

impl<W: Write> Table<W> {
    pub(crate) fn new(schema: &SchemaRef, limits: Limits, to: W) -> Self {
        Self {
            to,
            limits,
            names: schema
                .fields()
                .iter()
                .map(|field| terminal(field.name()).into_owned())
                .collect(),
            is_number: schema.fields().iter().map(|f| f.data_type().is_numeric()).collect(),
            sample: Vec::new(),
            widths: None,
            rows: 0,
        }
    }

    /// How many of `count` further rows are shown.
    fn shown(&self, count: usize) -> usize {
        match self.limits.rows {
            Some(limit) => count.min(limit.saturating_sub(self.rows)),
            None => count,
        }
    }

    /// Writes the head and the rows held back, with the widths they have.
    fn settle(&mut self) -> Result<(), QueryError> {
        if self.widths.is_some() {
            return Ok(());
        }
        let longest = |at: usize| {
            let cells = self.sample.iter().filter_map(|row| row.get(at)).map(|c| width(c));
            let longest = cells.max().unwrap_or(0);
            longest.clamp(
                self.names.get(at).map_or(0, |n| width(n)),
                MAX_WIDTH.max(longest.min(MAX_WIDTH)),
            )
        };
        self.widths = Some((0..self.names.len()).map(longest).collect());
        let names = self.names.clone();
        self.line(&names)?;
        let rule: Vec<String> =
            self.widths.iter().flatten().map(|width| "─".repeat(*width)).collect();
        self.line(&rule)?;
        for row in std::mem::take(&mut self.sample) {
            self.line(&row)?;
        }
        Ok(())
    }

    fn line(&mut self, cells: &[String]) -> Result<(), QueryError> {
        let widths = self.widths.as_deref().unwrap_or_default();
        let mut line = String::new();
        for (at, cell) in cells.iter().enumerate() {
            let pad = " ".repeat(widths.get(at).map_or(0, |w| w.saturating_sub(width(cell))));
            let gap = if at == 0 { "" } else { "  " };
            let is_last = at + 1 == cells.len();
            match self.is_number.get(at) {
                Some(true) => line.extend([gap, &pad, cell]),
                _ if is_last => line.extend([gap, cell]),
                _ => line.extend([gap, cell, &pad]),
            }
        }
        if let Some(limit) = self.limits.width
            && width(&line) > limit
        {
            line = line.chars().take(limit.saturating_sub(1)).collect();
            line.push('…');
        }
        Ok(writeln!(self.to, "{line}")?)
    }
}

impl<W: Write + Send> BatchWriter for Table<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<bool, QueryError> {
        let shown = self.shown(batch.num_rows());
        for row in cells(&batch.slice(0, shown))? {
            if self.widths.is_some() {
                self.line(&row)?;
            } else {
                self.sample.push(row);
            }
            if self.sample.len() >= SAMPLE_ROWS {
                self.settle()?;
            }
        }
        self.rows += batch.num_rows();
        Ok(self.limits.rows.is_none_or(|limit| self.rows < limit.saturating_add(COUNT_ROWS)))
    }

    fn finish(mut self: Box<Self>) -> Result<(), QueryError> {
        self.settle()?;
        if let Some(limit) = self.limits.rows
            && self.rows > limit
        {
            let more = self.rows - limit;
            let or_more = if more >= COUNT_ROWS { "at least " } else { "" };
            writeln!(
                self.to,
                "… {or_more}{more} more rows (for all rows use --csv, --jsonl or -o FILE)"
            )?;
        }
        self.to.flush()?;
        Ok(())
    }
}

/// The cells of a batch as text, row by row.
fn cells(batch: &RecordBatch) -> Result<Vec<Vec<String>>, QueryError> {
    let options = FormatOptions::default().with_null(NULL).with_display_error(true);
    let mut rows = vec![Vec::with_capacity(batch.num_columns()); batch.num_rows()];
    for column in batch.columns() {
        if let DataType::Float64 = column.data_type() {
            for (row, value) in rows.iter_mut().zip(column.as_primitive::<Float64Type>()) {
                row.push(value.map_or_else(|| NULL.to_owned(), float));
            }
            continue;
        }
        let failed =
            |error: arrow::error::ArrowError| QueryError::Run { message: error.to_string() };
        let formatter = ArrayFormatter::try_new(column.as_ref(), &options).map_err(failed)?;
        for (at, row) in rows.iter_mut().enumerate() {
            row.push(terminal(&formatter.value(at).to_string()).into_owned());
        }
    }
    Ok(rows)
}

/// Six significant digits: CSV and JSON have all.
fn float(value: f64) -> String {
    if value == 0.0 || !value.is_finite() || (1e-4..1e15).contains(&value.abs()) {
        let whole_digits = value.abs().max(1.0).log10().floor();
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 to 15.
        let decimals = 5_usize.saturating_sub(whole_digits as usize);
        let text = format!("{value:.decimals$}");
        if text.contains('.') {
            return text.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        return text;
    }
    format!("{value:.5e}")
}

fn width(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_six_digits_and_no_tail() {
        let shown: Vec<String> =
            [0.5, 1.0 / 3.0, 123_456.789, 0.0, 1e20, 1e-7].into_iter().map(float).collect();
        assert_eq!(shown, ["0.5", "0.33333", "123457", "0", "1.00000e20", "1.00000e-7"]);
    }
}
