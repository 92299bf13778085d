//! The columns of a batch, as they were asked for.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use std::sync::Arc;

/// A batch with these columns in this order; without any, as it is.
pub(super) fn shape(
    batch: &RecordBatch,
    columns: &[&'static str],
) -> Result<RecordBatch, ArrowError> {
    if columns.is_empty() {
        return Ok(batch.clone());
    }
    let schema = batch.schema();
    let mut fields: Vec<Arc<Field>> = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for name in columns {
        match schema.fields().find(name) {
            Some((at, field)) => {
                fields.push(Arc::clone(field));
                arrays.push(Arc::clone(batch.column(at)));
            }
            None => {
                fields.push(Arc::new(Field::new(*name, DataType::Null, true)));
                arrays.push(new_null_array(&DataType::Null, batch.num_rows()));
            }
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
}
