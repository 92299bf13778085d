//! Conditions on rows: judged by a row group's statistics as far as these suffice, else by row.

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt32Type, UInt64Type};
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

/// A column's numbers; null where it has none, or one beyond those of an `i64`, which no condition names.
/// (Arrow's casts and comparisons know all types: megabytes of code for the few that tables have.)
fn numbers(column: &dyn Array) -> Result<Int64Array, ArrowError> {
    Ok(match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().clone(),
        DataType::Int32 => column.as_primitive::<Int32Type>().unary(i64::from),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().unary(i64::from),
        DataType::UInt64 => {
            column.as_primitive::<UInt64Type>().unary_opt(|number| i64::try_from(number).ok())
        }
        DataType::Boolean => column.as_boolean().iter().map(|is| is.map(i64::from)).collect(),
        other => {
            return Err(ArrowError::SchemaError(format!(
                "column of type {other}, expected numbers"
            )));
        }
    })
}

fn by_number(
    batch: &RecordBatch,
    column: &str,
    is_wanted: impl Fn(i64) -> bool,
) -> Result<BooleanBuffer, ArrowError> {
    let Some(column) = batch.column_by_name(column) else {
        return Ok(BooleanBuffer::new_unset(batch.num_rows()));
    };
    let numbers = numbers(column)?;
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
    let (ts, dur) = (numbers(ts)?, numbers(dur)?);
    Ok(BooleanBuffer::collect_bool(ts.len(), |row| {
        let is_known = ts.is_valid(row) && dur.is_valid(row);
        is_known && is_wanted(ts.value(row).saturating_add(dur.value(row)))
    }))
}

fn is_word(batch: &RecordBatch, column: &str, word: &str) -> Result<BooleanBuffer, ArrowError> {
    let Some(column) = batch.column_by_name(column) else {
        return Ok(BooleanBuffer::new_unset(batch.num_rows()));
    };
    let bad =
        || ArrowError::SchemaError(format!("column of type {}, expected text", column.data_type()));
    if let Some(words) = column.as_string_opt::<i32>() {
        let is = |row| words.is_valid(row) && words.value(row) == word;
        return Ok(BooleanBuffer::collect_bool(words.len(), is));
    }
    let dictionary = column.as_dictionary_opt::<Int32Type>().ok_or_else(bad)?;
    let words = dictionary.values().as_string_opt::<i32>().ok_or_else(bad)?;
    let is_it: Vec<bool> = words.iter().map(|known| known == Some(word)).collect();
    let keys = dictionary.keys();
    Ok(BooleanBuffer::collect_bool(keys.len(), |row| {
        let place = keys.is_valid(row).then(|| usize::try_from(keys.value(row)).ok()).flatten();
        place.and_then(|place| is_it.get(place)).copied().unwrap_or(false)
    }))
}
