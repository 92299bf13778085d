//! Record batches out of records.

use crate::catalog::arrow_schema;
use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, RecordBatch,
    RecordBatchOptions, StringViewBuilder, UInt32Builder, UInt64Builder,
};
use datafusion::error::{DataFusionError, Result};
use std::sync::Arc;
use transect_model::cell::{Cell, Record};
use transect_model::table::{ColumnType, TableDoc};

/// Rows of the table as columns.
pub(crate) fn batch_of<R: Record>(table: &TableDoc, rows: &[R]) -> Result<RecordBatch> {
    let mut columns: Vec<Builder> = table.columns.iter().map(|c| Builder::new(c.ty)).collect();
    let mut failed = false;
    for row in rows {
        let mut at = 0;
        row.each_cell(&mut |_, cell| {
            failed |= columns.get_mut(at).is_none_or(|column| !column.push(&cell));
            at += 1;
        });
    }
    if failed {
        return Err(DataFusionError::Internal(format!("a row of {} is none", table.name)));
    }
    let columns = columns.into_iter().map(Builder::finish).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(arrow_schema(table), columns, &options)?)
}

enum Builder {
    Bool(BooleanBuilder),
    I32(Int32Builder),
    U32(UInt32Builder),
    I64(Int64Builder),
    U64(UInt64Builder),
    F64(Float64Builder),
    Text(StringViewBuilder),
}

impl Builder {
    fn new(kind: ColumnType) -> Self {
        match kind {
            ColumnType::Bool => Builder::Bool(BooleanBuilder::new()),
            ColumnType::I32 => Builder::I32(Int32Builder::new()),
            ColumnType::U32 => Builder::U32(UInt32Builder::new()),
            ColumnType::I64 => Builder::I64(Int64Builder::new()),
            ColumnType::U64 => Builder::U64(UInt64Builder::new()),
            ColumnType::F64 => Builder::F64(Float64Builder::new()),
            ColumnType::Text => Builder::Text(StringViewBuilder::new()),
        }
    }

    /// False if the cell is of another type.
    fn push(&mut self, cell: &Cell<'_>) -> bool {
        match (self, cell) {
            (Builder::Bool(to), Cell::Bool(value)) => to.append_value(*value),
            (Builder::Bool(to), Cell::Null) => to.append_null(),
            (Builder::I32(to), Cell::I64(value)) => match i32::try_from(*value) {
                Ok(value) => to.append_value(value),
                Err(_) => return false,
            },
            (Builder::I32(to), Cell::Null) => to.append_null(),
            (Builder::U32(to), Cell::U64(value)) => match u32::try_from(*value) {
                Ok(value) => to.append_value(value),
                Err(_) => return false,
            },
            (Builder::U32(to), Cell::Null) => to.append_null(),
            (Builder::I64(to), Cell::I64(value)) => to.append_value(*value),
            (Builder::I64(to), Cell::Null) => to.append_null(),
            (Builder::U64(to), Cell::U64(value)) => to.append_value(*value),
            (Builder::U64(to), Cell::Null) => to.append_null(),
            (Builder::F64(to), Cell::F64(value)) => to.append_value(*value),
            (Builder::F64(to), Cell::Null) => to.append_null(),
            (Builder::Text(to), Cell::Str(value)) => to.append_value(value),
            (Builder::Text(to), Cell::Null) => to.append_null(),
            _ => return false,
        }
        true
    }

    fn finish(self) -> ArrayRef {
        match self {
            Builder::Bool(mut column) => Arc::new(column.finish()),
            Builder::I32(mut column) => Arc::new(column.finish()),
            Builder::U32(mut column) => Arc::new(column.finish()),
            Builder::I64(mut column) => Arc::new(column.finish()),
            Builder::U64(mut column) => Arc::new(column.finish()),
            Builder::F64(mut column) => Arc::new(column.finish()),
            Builder::Text(mut column) => Arc::new(column.finish()),
        }
    }
}
