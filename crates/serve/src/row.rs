//! Rows by column name, from Arrow batches.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use serde_json::{Map, Value};
use transect_http::Response;

/// One row by column name.
pub(crate) type Row = Map<String, Value>;

/// The rows of some batches: Booleans, numbers and words as they are, numbers that are not finite and
/// nulls as null. Tables have no other values, and the server's own questions ask for no others.
pub(crate) fn rows_of(batches: &[RecordBatch]) -> Result<Vec<Row>, Response> {
    let mut rows = Vec::new();
    for batch in batches {
        let first = rows.len();
        rows.resize_with(first + batch.num_rows(), Row::new);
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let values = values_of(column);
            let values = values.ok_or_else(|| {
                let (name, of) = (field.name(), field.data_type());
                Response::error(500, &format!("column {name} has an unsupported type: {of}"))
            })?;
            for (row, value) in rows[first..].iter_mut().zip(values) {
                row.insert(field.name().clone(), value);
            }
        }
    }
    Ok(rows)
}

/// None for a type that no table has. (Arrow's casts know all types: 4 MB of code for these few.)
fn values_of(column: &ArrayRef) -> Option<Vec<Value>> {
    Some(match column.data_type() {
        DataType::Null => vec![Value::Null; column.len()],
        DataType::Boolean => column.as_boolean().iter().map(Value::from).collect(),
        DataType::Int32 => column.as_primitive::<Int32Type>().iter().map(Value::from).collect(),
        DataType::Int64 => column.as_primitive::<Int64Type>().iter().map(Value::from).collect(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().iter().map(Value::from).collect(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().iter().map(Value::from).collect(),
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().map(Value::from).collect(),
        DataType::Utf8 => column.as_string::<i32>().iter().map(Value::from).collect(),
        DataType::Utf8View => column.as_string_view().iter().map(Value::from).collect(),
        DataType::Dictionary(..) => {
            let dictionary = column.as_dictionary_opt::<Int32Type>()?;
            let values = values_of(dictionary.values())?;
            let value = |key: Option<i32>| {
                let at = key.and_then(|key| usize::try_from(key).ok());
                at.and_then(|at| values.get(at).cloned()).unwrap_or(Value::Null)
            };
            dictionary.keys().iter().map(value).collect()
        }
        _ => return None,
    })
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
        BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, NullArray,
        StringArray, StringViewArray, TimestampSecondArray, UInt32Array, UInt64Array,
    };
    use arrow::ipc::reader::StreamReader;
    use arrow::ipc::writer::StreamWriter;
    use serde_json::json;
    use std::sync::Arc;

    fn batch() -> RecordBatch {
        let words: DictionaryArray<Int32Type> =
            [Some("guest"), None, Some("guest")].into_iter().collect();
        let columns: [(&str, ArrayRef); 9] = [
            ("bool", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
            ("i32", Arc::new(Int32Array::from(vec![Some(-7), None, Some(0)]))),
            ("u64", Arc::new(UInt64Array::from(vec![u64::MAX, 0, 1]))),
            ("f64", Arc::new(Float64Array::from(vec![0.5, f64::NAN, f64::INFINITY]))),
            ("u32", Arc::new(UInt32Array::from(vec![Some(u32::MAX), None, Some(0)]))),
            ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(0)]))),
            ("utf8", Arc::new(StringArray::from(vec![Some("a"), None, Some("")]))),
            ("view", Arc::new(StringViewArray::from(vec![Some("c"), None, Some("")]))),
            ("words", Arc::new(words)),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn wanted() -> Vec<Row> {
        let rows = json!([
            { "bool": true, "i32": -7, "u64": u64::MAX, "f64": 0.5, "u32": u32::MAX, "i64": i64::MIN,
              "utf8": "a", "view": "c", "words": "guest" },
            { "bool": null, "i32": null, "u64": 0, "f64": null, "u32": null, "i64": null, "utf8": null,
              "view": null, "words": null },
            { "bool": false, "i32": 0, "u64": 1, "f64": null, "u32": 0, "i64": 0, "utf8": "", "view": "",
              "words": "guest" },
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
    fn what_no_table_has_is_told() {
        let column: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
        let refused = rows_of(&[RecordBatch::try_from_iter([("when", column)]).unwrap()]);
        assert_eq!(refused.err().unwrap().status, 500);
    }

    #[test]
    fn missing_values_are_null() {
        let column: ArrayRef = Arc::new(NullArray::new(2));
        let rows = rows_of(&[RecordBatch::try_from_iter([("a", column)]).unwrap()]);
        assert_eq!(rows.unwrap_or_default(), vec![Row::from_iter([("a".into(), Value::Null)]); 2]);
    }
}
