//! Rows of the model out of record batches.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, RecordBatch, StringViewArray,
};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use std::borrow::Cow;
use transect_explain::Gathered;
use transect_model::cell::Cell;
use transect_model::column::{ColumnSource, ColumnValue, Columnar};
use transect_model::table::{TableDoc, TableVisitor, each_table};

/// What a row takes in the indices of its actors, at most.
const INDEX_BYTES: usize = 32;

/// The rows that were read, and the account of their memory.
pub(crate) struct Accounted {
    pub(crate) rows: Gathered,
    pub(crate) memory: MemoryReservation,
}

impl Accounted {
    pub(crate) fn new(memory: MemoryReservation) -> Self {
        Self { rows: Gathered::default(), memory }
    }

    /// Takes rows of a table; the batch has its columns in order.
    pub(crate) fn take(&mut self, table: &TableDoc, batch: &RecordBatch) -> Result<()> {
        each_table(&mut Taking { table, batch, to: self })
    }
}

struct Taking<'a> {
    table: &'a TableDoc,
    batch: &'a RecordBatch,
    to: &'a mut Accounted,
}

impl TableVisitor for Taking<'_> {
    type Error = DataFusionError;

    fn table<R: Columnar>(&mut self) -> Result<()> {
        if R::TABLE.name != self.table.name {
            return Ok(());
        }
        let rows = self.batch.num_rows();
        let texts = self.batch.columns().iter().map(text_bytes).sum::<usize>();
        self.to.memory.try_grow(rows * (size_of::<R>() + INDEX_BYTES) + texts)?;
        let columns = self.batch.columns().iter().map(Values::of).collect::<Result<Vec<_>>>()?;
        let mut source = RowOf { columns: &columns, row: 0, column: 0 };
        for row in 0..rows {
            (source.row, source.column) = (row, 0);
            self.to.rows.take(R::read(&mut source)?.into());
        }
        Ok(())
    }
}

/// What the texts of a column take as strings of their own.
fn text_bytes(column: &ArrayRef) -> usize {
    let texts = column.as_any().downcast_ref::<StringViewArray>();
    texts.map_or(0, |texts| texts.iter().flatten().map(str::len).sum())
}

/// The values of a column.
enum Values<'b> {
    Bool(&'b BooleanArray),
    I32(&'b PrimitiveArray<Int32Type>),
    U32(&'b PrimitiveArray<UInt32Type>),
    I64(&'b PrimitiveArray<Int64Type>),
    U64(&'b PrimitiveArray<UInt64Type>),
    F64(&'b PrimitiveArray<Float64Type>),
    Text(&'b StringViewArray),
}

impl<'b> Values<'b> {
    fn of(column: &'b ArrayRef) -> Result<Self> {
        Ok(match column.data_type() {
            DataType::Boolean => Values::Bool(column.as_boolean()),
            DataType::Int32 => Values::I32(column.as_primitive()),
            DataType::UInt32 => Values::U32(column.as_primitive()),
            DataType::Int64 => Values::I64(column.as_primitive()),
            DataType::UInt64 => Values::U64(column.as_primitive()),
            DataType::Float64 => Values::F64(column.as_primitive()),
            DataType::Utf8View => Values::Text(column.as_string_view()),
            other => {
                return Err(DataFusionError::Internal(format!("a column of the type {other}")));
            }
        })
    }

    fn cell(&self, row: usize) -> Cell<'b> {
        fn number<T: ArrowPrimitiveType>(
            values: &PrimitiveArray<T>,
            row: usize,
        ) -> Option<T::Native> {
            values.is_valid(row).then(|| values.value(row))
        }
        let cell = match self {
            Values::Bool(values) => values.is_valid(row).then(|| Cell::Bool(values.value(row))),
            Values::I32(values) => number(values, row).map(|value| Cell::I64(value.into())),
            Values::U32(values) => number(values, row).map(|value| Cell::U64(value.into())),
            Values::I64(values) => number(values, row).map(Cell::I64),
            Values::U64(values) => number(values, row).map(Cell::U64),
            Values::F64(values) => number(values, row).map(Cell::F64),
            Values::Text(values) => {
                values.is_valid(row).then(|| Cell::Str(Cow::Borrowed(values.value(row))))
            }
        };
        cell.unwrap_or(Cell::Null)
    }
}

struct RowOf<'c, 'b> {
    columns: &'c [Values<'b>],
    row: usize,
    /// The column that is asked for next.
    column: usize,
}

impl ColumnSource for RowOf<'_, '_> {
    type Error = DataFusionError;

    fn value<T: ColumnValue>(&mut self, name: &'static str) -> Result<T> {
        let column = self.columns.get(self.column);
        self.column += 1;
        let Some(column) = column else {
            return Err(DataFusionError::Internal(format!("column {name} is missing")));
        };
        let cell = column.cell(self.row);
        match T::from_cell(&cell) {
            Some(value) => Ok(value),
            None => exec_err!("{name} has the invalid value {cell:?}"),
        }
    }
}
