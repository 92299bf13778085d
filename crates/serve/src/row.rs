//! Rows by column name, from Arrow batches.

use crate::http::Response;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float16Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::{Map, Value};

/// One row by column name.
pub(crate) type Row = Map<String, Value>;

/// The rows of some batches: Booleans, numbers and words as they are, numbers that are not finite and
/// nulls as null, every other value as the text that Arrow shows it as.
pub(crate) fn rows_of(batches: &[RecordBatch]) -> Result<Vec<Row>, Response> {
    let mut rows = Vec::new();
    for batch in batches {
        let first = rows.len();
        rows.resize_with(first + batch.num_rows(), Row::new);
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let values = values_of(column);
            let values = values.map_err(|error| Response::error(500, &error.to_string()))?;
            for (row, value) in rows[first..].iter_mut().zip(values) {
                row.insert(field.name().clone(), value);
            }
        }
    }
    Ok(rows)
}

fn values_of(column: &ArrayRef) -> Result<Vec<Value>, ArrowError> {
    use DataType::{
        Boolean, Dictionary, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeUtf8, Null,
        UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let rows = 0..column.len();
    Ok(match column.data_type() {
        Null => rows.map(|_| Value::Null).collect(),
        Boolean => {
            let column = column.as_boolean();
            column.iter().map(Value::from).collect()
        }
        Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 => {
            let column = cast(column, &Int64)?;
            column.as_primitive::<Int64Type>().iter().map(Value::from).collect()
        }
        UInt64 => column.as_primitive::<UInt64Type>().iter().map(Value::from).collect(),
        Float64 => column.as_primitive::<Float64Type>().iter().map(Value::from).collect(),
        Float32 => {
            // The shortest text that is this number, as JSON has it: 0.1, not 0.10000000149.
            let shortest = |number: f32| number.to_string().parse::<f64>().ok();
            let column = column.as_primitive::<Float32Type>();
            column.iter().map(|number| Value::from(number.and_then(shortest))).collect()
        }
        Float16 => {
            let column = column.as_primitive::<Float16Type>();
            column.iter().map(|number| Value::from(number.map(f64::from))).collect()
        }
        Utf8 => column.as_string::<i32>().iter().map(Value::from).collect(),
        LargeUtf8 => column.as_string::<i64>().iter().map(Value::from).collect(),
        Utf8View => column.as_string_view().iter().map(Value::from).collect(),
        Dictionary(..) => {
            let Some(dictionary) = column.as_any_dictionary_opt() else {
                return as_shown(column);
            };
            let values = values_of(dictionary.values())?;
            let keys = cast(&dictionary.keys().slice(0, column.len()), &Int64)?;
            let value = |key: Option<i64>| {
                let at = key.and_then(|key| usize::try_from(key).ok());
                at.and_then(|at| values.get(at).cloned()).unwrap_or(Value::Null)
            };
            keys.as_primitive::<Int64Type>().iter().map(value).collect()
        }
        _ => return as_shown(column),
    })
}

fn as_shown(column: &ArrayRef) -> Result<Vec<Value>, ArrowError> {
    let format = FormatOptions::default();
    let shown = ArrayFormatter::try_new(column.as_ref(), &format)?;
    let value = |row| match column.is_null(row) {
        true => Ok(Value::Null),
        false => shown.value(row).try_to_string().map(Value::String),
    };
    (0..column.len()).map(value).collect()
}

/// A whole number of a row.
pub(crate) fn int(row: &Row, name: &str) -> Option<i64> {
    row.get(name)?.as_i64()
}

/// A number of a row that is an id.
pub(crate) fn id(row: &Row, name: &str) -> Option<u32> {
    u32::try_from(int(row, name)?).ok()
}

/// A thread's number.
pub(crate) fn tid(row: &Row, name: &str) -> Option<i32> {
    i32::try_from(int(row, name)?).ok()
}

/// Words of a row; empty for null.
pub(crate) fn text<'r>(row: &'r Row, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use arrow::array::{
        BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array, LargeStringArray,
        NullArray, StringArray, StringViewArray, TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::Int32Type;
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::StreamWriter;
    use serde_json::json;
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let words: DictionaryArray<Int32Type> =
            [Some("guest"), None, Some("guest")].into_iter().collect();
        let columns: [(&str, ArrayRef); 10] = [
            ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
            ("i32", Arc::new(Int32Array::from(vec![Some(-7), None, Some(0)]))),
            ("u64", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1]))),
            ("f64", Arc::new(Float64Array::from(vec![0.5, f64::NAN, f64::INFINITY]))),
            ("f32", Arc::new(Float32Array::from(vec![0.1, 2.0, f32::NAN]))),
            ("utf8", Arc::new(StringArray::from(vec![Some("a"), None, Some("")]))),
            ("large", Arc::new(LargeStringArray::from(vec![Some("b"), None, Some("")]))),
            ("view", Arc::new(StringViewArray::from(vec![Some("c"), None, Some("")]))),
            ("words", Arc::new(words)),
            ("other", Arc::new(TimestampSecondArray::from(vec![Some(0), None, Some(1)]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn wanted() -> Vec<Row> {
        let rows = json!([
            { "bool": true, "i32": -7, "u64": u64::MAX, "f64": 0.5, "f32": 0.1, "utf8": "a",
              "large": "b", "view": "c", "words": "guest", "other": "1970-01-01T00:00:00" },
            { "bool": null, "i32": null, "u64": 0, "f64": null, "f32": 2.0, "utf8": null,
              "large": null, "view": null, "words": null, "other": null },
            { "bool": false, "i32": 0, "u64": 1, "f64": null, "f32": null, "utf8": "",
              "large": "", "view": "", "words": "guest", "other": "1970-01-01T00:00:01" },
        ]);
        serde_json::from_value(rows).unwrap()
    }

    #[test]
    fn values_of_every_type_become_json() {
        assert_eq!(rows_of(&[batch()]).unwrap_or_default(), wanted());
        // Slices begin anywhere, and rows of several batches follow one another.
        let parts = [batch().slice(2, 1), batch().slice(0, 2)];
        let [first, second, third] = wanted().try_into().unwrap();
        assert_eq!(rows_of(&parts).unwrap_or_default(), [third, first, second]);
    }

    #[test]
    fn values_survive_an_arrow_stream() {
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &batch().schema()).unwrap();
        writer.write(&batch()).unwrap();
        writer.finish().unwrap();
        let read: Vec<_> =
            StreamReader::try_new(&bytes[..], None).unwrap().collect::<Result<_, _>>().unwrap();
        assert_eq!(rows_of(&read).unwrap_or_default(), wanted());
    }

    #[test]
    fn missing_values_are_null() {
        let column: ArrayRef = Arc::new(NullArray::new(2));
        let rows = rows_of(&[RecordBatch::try_from_iter([("a", column)]).unwrap()]);
        assert_eq!(rows.unwrap_or_default(), vec![Row::from_iter([("a".into(), Value::Null)]); 2]);
    }
}
