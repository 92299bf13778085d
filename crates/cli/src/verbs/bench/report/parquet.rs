//! A report's rows as Parquet files.

use anyhow::Context as _;
use arrow::{
    array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array},
    datatypes::{DataType, Field, Schema},
};
use parquet::arrow::ArrowWriter;
use std::{fs::File, path::Path, sync::Arc};
use transect_bench_report::rows::{Kind, Rows, Value};

/// Writes one table into `FOLDER/NAME.parquet`. A column's description is in its field's metadata.
pub(super) fn write(table: &Rows, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let path = folder.join(format!("{}.parquet", table.name));
    let batch = batch_of(table)?;
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None)?;
    writer.write(&batch)?;
    writer.close().with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

fn batch_of(table: &Rows) -> anyhow::Result<RecordBatch> {
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (at, column) in table.columns().iter().enumerate() {
        let values = || table.rows().iter().filter_map(move |row| row.get(at));
        let (kind, array) = array_of(column.kind, values());
        let about = [("description".to_owned(), column.about.to_owned())];
        fields.push(Field::new(column.name, kind, true).with_metadata(about.into()));
        columns.push(array);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

fn array_of<'a>(kind: Kind, values: impl Iterator<Item = &'a Value>) -> (DataType, ArrayRef) {
    match kind {
        Kind::Text => {
            let text = |value: &'a Value| match value {
                Value::Text(text) => Some(text.as_str()),
                _ => None,
            };
            (DataType::Utf8, Arc::new(values.map(text).collect::<StringArray>()))
        }
        Kind::Count => {
            let count = |value: &Value| match value {
                Value::Count(count) => Some(*count),
                _ => None,
            };
            (DataType::UInt64, Arc::new(values.map(count).collect::<UInt64Array>()))
        }
        Kind::Number => {
            let number = |value: &Value| match value {
                Value::Number(number) => Some(*number),
                _ => None,
            };
            (DataType::Float64, Arc::new(values.map(number).collect::<Float64Array>()))
        }
        Kind::Switch => {
            let switch = |value: &Value| match value {
                Value::Switch(switch) => Some(*switch),
                _ => None,
            };
            (DataType::Boolean, Arc::new(values.map(switch).collect::<BooleanArray>()))
        }
    }
}
