//! Conditions on rows: judged by a row group's statistics as far as these suffice, else by row.

use arrow::array::AsArray;
use arrow::array::{Array, BooleanArray, RecordBatch, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::cast;
use arrow::compute::kernels::cmp::eq;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use std::collections::BTreeSet;
use std::ops::Range;

/// A condition on one row. A null satisfies none but [`Condition::Null`]; a column that a file lacks
/// is null in all its rows. A Boolean column holds the numbers 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// All of these hold; without any, every row passes.
    All(Vec<Condition>),
    /// At least one of these holds; without any, no row passes.
    Any(Vec<Condition>),
    /// The column has one of these numbers.
    In(&'static str, BTreeSet<i64>),
    /// The column's number is in this range.
    Between(&'static str, Range<i64>),
    /// The column has a number, and not this one.
    Not(&'static str, i64),
    /// The column has this word.
    Is(&'static str, String),
    /// The column is null.
    Null(&'static str),
    /// The column is not null.
    Known(&'static str),
    /// The row's interval ends after this moment: `ts + dur > at`.
    EndsAfter(i64),
    /// The row's interval ends at this moment: `ts + dur = at`.
    EndsAt(i64),
}

/// What is known of a column's values in some rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// Is there no such column?
    pub(super) is_absent: bool,
    /// Smallest and largest number of those that are not null.
    pub(super) bounds: Option<(i64, i64)>,
    /// Is none of them null?
    pub(super) is_complete: bool,
}

impl Condition {
    /// The column has this number.
    pub fn number(column: &'static str, number: impl Into<i64>) -> Self {
        Condition::In(column, BTreeSet::from([number.into()]))
    }

    /// Every row passes.
    pub fn always() -> Self {
        Condition::All(Vec::new())
    }

    /// No row passes.
    pub fn never() -> Self {
        Condition::Any(Vec::new())
    }

    pub(super) fn is_always(&self) -> bool {
        matches!(self, Condition::All(parts) if parts.is_empty())
    }

    pub(super) fn is_never(&self) -> bool {
        matches!(self, Condition::Any(parts) if parts.is_empty())
    }

    /// Adds the columns that the condition reads.
    pub(super) fn columns(&self, to: &mut BTreeSet<&'static str>) {
        match self {
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().for_each(|part| part.columns(to));
            }
            Condition::In(column, _)
            | Condition::Between(column, _)
            | Condition::Not(column, _)
            | Condition::Is(column, _)
            | Condition::Null(column)
            | Condition::Known(column) => {
                to.insert(*column);
            }
            Condition::EndsAfter(_) | Condition::EndsAt(_) => to.extend(["ts", "dur"]),
        }
    }

    /// What is left to be judged by row, given what is known of the columns.
    pub(super) fn simplified(&self, known: &dyn Fn(&str) -> Known) -> Condition {
        match self {
            Condition::All(parts) => {
                let mut left = Vec::new();
                for part in parts.iter().map(|part| part.simplified(known)) {
                    match part {
                        part if part.is_never() => return part,
                        Condition::All(inner) => left.extend(inner),
                        part => left.push(part),
                    }
                }
                Condition::All(left)
            }
            Condition::Any(parts) => {
                let mut left = Vec::new();
                for part in parts.iter().map(|part| part.simplified(known)) {
                    match part {
                        part if part.is_always() => return part,
                        Condition::Any(inner) => left.extend(inner),
                        part => left.push(part),
                    }
                }
                match left.len() {
                    1 => left.remove(0),
                    _ => Condition::Any(left),
                }
            }
            leaf => match leaf.verdict(known) {
                Some(true) => Condition::always(),
                Some(false) => Condition::never(),
                None => leaf.clone(),
            },
        }
    }

    /// Whether all rows pass or none does, if that is known.
    fn verdict(&self, known: &dyn Fn(&str) -> Known) -> Option<bool> {
        let by_bounds = |column: &str, within: &dyn Fn(i64, i64) -> Option<bool>| {
            let known = known(column);
            match known.bounds {
                _ if known.is_absent => Some(false),
                Some((min, max)) => {
                    within(min, max).filter(|verdict| !verdict || known.is_complete)
                }
                None => None,
            }
        };
        match self {
            Condition::In(column, numbers) => by_bounds(column, &|min, max| {
                let mut within = numbers.range(min..=max);
                within.next().map_or(Some(false), |_| (min == max).then_some(true))
            }),
            Condition::Between(column, range) => by_bounds(column, &|min, max| {
                if max < range.start || min >= range.end {
                    return Some(false);
                }
                (range.contains(&min) && range.contains(&max)).then_some(true)
            }),
            Condition::Not(column, number) => by_bounds(column, &|min, max| {
                if (min, max) == (*number, *number) {
                    return Some(false);
                }
                (!(min..=max).contains(number)).then_some(true)
            }),
            Condition::Is(column, _) => known(column).is_absent.then_some(false),
            Condition::Null(column) => match known(column) {
                known if known.is_absent => Some(true),
                known => known.is_complete.then_some(false),
            },
            Condition::Known(column) => match known(column) {
                known if known.is_absent => Some(false),
                known => known.is_complete.then_some(true),
            },
            Condition::EndsAfter(_) | Condition::EndsAt(_) => {
                let is_absent = known("ts").is_absent || known("dur").is_absent;
                is_absent.then_some(false)
            }
            Condition::All(_) | Condition::Any(_) => None,
        }
    }

    /// Which rows of a batch pass.
    pub(super) fn judge(&self, batch: &RecordBatch) -> Result<BooleanBuffer, ArrowError> {
        let rows = batch.num_rows();
        match self {
            Condition::All(parts) => {
                let all = BooleanBuffer::new_set(rows);
                parts.iter().try_fold(all, |all, part| Ok(&all & &part.judge(batch)?))
            }
            Condition::Any(parts) => {
                let none = BooleanBuffer::new_unset(rows);
                parts.iter().try_fold(none, |any, part| Ok(&any | &part.judge(batch)?))
            }
            Condition::In(column, numbers) => {
                let only = numbers.first().filter(|_| numbers.len() == 1).copied();
                match only {
                    Some(only) => by_number(batch, column, |number| number == only),
                    None => by_number(batch, column, |number| numbers.contains(&number)),
                }
            }
            Condition::Between(column, range) => {
                by_number(batch, column, |number| range.contains(&number))
            }
            Condition::Not(column, other) => by_number(batch, column, |number| number != *other),
            Condition::Is(column, word) => is_word(batch, column, word),
            Condition::Null(column) => Ok(match batch.column_by_name(column) {
                Some(column) => !&is_known(column.as_ref()),
                None => BooleanBuffer::new_set(rows),
            }),
            Condition::Known(column) => Ok(match batch.column_by_name(column) {
                Some(column) => is_known(column.as_ref()),
                None => BooleanBuffer::new_unset(rows),
            }),
            Condition::EndsAfter(at) => by_end(batch, |end| end > *at),
            Condition::EndsAt(at) => by_end(batch, |end| end == *at),
        }
    }
}

fn is_known(column: &dyn Array) -> BooleanBuffer {
    match column.logical_nulls() {
        Some(nulls) => nulls.inner().clone(),
        None => BooleanBuffer::new_set(column.len()),
    }
}

/// Numbers beyond those of an `i64` are null: no condition names one.
fn by_number(
    batch: &RecordBatch,
    column: &str,
    is_wanted: impl Fn(i64) -> bool,
) -> Result<BooleanBuffer, ArrowError> {
    let Some(column) = batch.column_by_name(column) else {
        return Ok(BooleanBuffer::new_unset(batch.num_rows()));
    };
    let column = cast(column, &DataType::Int64)?;
    let numbers = column.as_primitive::<Int64Type>();
    let values = numbers.values();
    let wanted = BooleanBuffer::collect_bool(values.len(), |row| is_wanted(values[row]));
    Ok(match numbers.nulls() {
        Some(nulls) => &wanted & nulls.inner(),
        None => wanted,
    })
}

fn by_end(
    batch: &RecordBatch,
    is_wanted: impl Fn(i64) -> bool,
) -> Result<BooleanBuffer, ArrowError> {
    let (Some(ts), Some(dur)) = (batch.column_by_name("ts"), batch.column_by_name("dur")) else {
        return Ok(BooleanBuffer::new_unset(batch.num_rows()));
    };
    let (ts, dur) = (cast(ts, &DataType::Int64)?, cast(dur, &DataType::Int64)?);
    let (ts, dur) = (ts.as_primitive::<Int64Type>(), dur.as_primitive::<Int64Type>());
    Ok(BooleanBuffer::collect_bool(ts.len(), |row| {
        let is_known = ts.is_valid(row) && dur.is_valid(row);
        is_known && is_wanted(ts.value(row).saturating_add(dur.value(row)))
    }))
}

fn is_word(batch: &RecordBatch, column: &str, word: &str) -> Result<BooleanBuffer, ArrowError> {
    let Some(column) = batch.column_by_name(column) else {
        return Ok(BooleanBuffer::new_unset(batch.num_rows()));
    };
    let word = StringArray::new_scalar(word);
    let found: BooleanArray = match column.data_type() {
        DataType::Utf8 => eq(column, &word)?,
        DataType::Dictionary(_, values) if **values == DataType::Utf8 => eq(column, &word)?,
        _ => eq(&cast(column, &DataType::Utf8)?, &word)?,
    };
    Ok(match found.nulls() {
        Some(nulls) => found.values() & nulls.inner(),
        None => found.values().clone(),
    })
}
