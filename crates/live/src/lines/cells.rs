//! The values of one line.

use serde_json::{Map, Value};
use transect_model::{
    cell::Cell,
    column::{ColumnSource, ColumnType, ColumnValue},
};

/// Larger numbers than 2^53 (104 days in ns; what every JSON parser keeps) are no window's, so sums of windows
/// cannot overflow. Stamps are as large as they are.
const LARGEST: u64 = 1 << 53;
const STAMPS: [&str; 2] = ["ts", "ended_unix_ns"];

/// A line's object, as a row reads it.
pub(super) struct Cells<'a> {
    object: &'a Map<String, Value>,
    /// Columns that are null although rows have a number there: allowed only where a metric is missing.
    pub(super) nulls: Vec<&'static str>,
    /// Columns of numbers that the row does not have: the log is of another version.
    pub(super) absent: Vec<&'static str>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(object: &'a Map<String, Value>) -> Self {
        Cells { object, nulls: Vec::new(), absent: Vec::new() }
    }
}

impl ColumnSource for Cells<'_> {
    type Error = String;

    fn value<T: ColumnValue>(&mut self, column: &'static str) -> Result<T, String> {
        let Some(value) = self.object.get(column) else {
            let nothing = T::from_cell(&Cell::Null);
            let nothing = nothing.or_else(|| T::from_cell(&nothing_of(T::TYPE)?));
            self.absent.push(column);
            return nothing.ok_or_else(|| format!("column \"{column}\" is missing"));
        };
        let is_sane = |cell: &Cell<'_>| match cell {
            Cell::I64(v) => v.unsigned_abs() <= LARGEST || STAMPS.contains(&column),
            Cell::U64(v) => *v <= LARGEST || STAMPS.contains(&column),
            _ => true,
        };
        let cell = cell(value, T::TYPE).filter(is_sane).unwrap_or(Cell::Null);
        if let Some(read) = T::from_cell(&cell).filter(|_| cell != Cell::Null || value.is_null()) {
            return Ok(read);
        }
        if value.is_null()
            && let Some(nothing) = nothing_of(T::TYPE).and_then(|cell| T::from_cell(&cell))
        {
            self.nulls.push(column);
            return Ok(nothing);
        }
        Err(format!("invalid value of \"{column}\": {}", shortened(value)))
    }
}

fn cell(value: &Value, ty: ColumnType) -> Option<Cell<'_>> {
    Some(match (ty, value) {
        (_, Value::Null) => Cell::Null,
        (ColumnType::Bool, Value::Bool(v)) => Cell::Bool(*v),
        (ColumnType::I32 | ColumnType::I64, Value::Number(v)) => Cell::I64(v.as_i64()?),
        (ColumnType::U32 | ColumnType::U64, Value::Number(v)) => Cell::U64(v.as_u64()?),
        (ColumnType::F64, Value::Number(v)) => Cell::F64(v.as_f64()?),
        (ColumnType::Text, Value::String(v)) => Cell::Str(v.as_str().into()),
        _ => return None,
    })
}

/// What stands in a column of numbers that cannot be had.
pub(super) fn nothing_of(ty: ColumnType) -> Option<Cell<'static>> {
    match ty {
        ColumnType::I32 | ColumnType::I64 => Some(Cell::I64(0)),
        ColumnType::U32 | ColumnType::U64 => Some(Cell::U64(0)),
        ColumnType::Bool | ColumnType::F64 | ColumnType::Text => None,
    }
}

/// Enough of a value to recognise it.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
