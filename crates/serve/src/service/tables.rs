//! The tables of a window, as JSON and as Arrow.

use super::columns::columns;
use super::rows::{Rows, RowsOf};
use arrow::array::{
    ArrayRef, BooleanBuilder, Float64Builder, Int32Builder, Int64Builder, RecordBatch,
    StringBuilder, UInt32Builder, UInt64Builder,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use std::convert::Infallible;
use std::sync::Arc;
use transect_live::{Snapshot, TABLES, lines};
use transect_model::cell::{Cell, Record};
use transect_model::column::ColumnType;

/// The rows of a table that are wanted, as JSON.
pub(crate) fn json_of(window: &Snapshot, table: &str, rows: &RowsOf<'_>) -> Arc<Vec<u8>> {
    lines::Rendered::some_of(window, table, |row| rows.has(table, row)).json()
}

/// What a window begins with, up to its first table.
pub(crate) fn json_head(window: &Snapshot, run: u64) -> String {
    let Snapshot { ts, dur, ended_unix_ns, missed_windows, .. } = window;
    format!(
        "{{\"ts\":{ts},\"dur\":{dur},\"ended_unix_ns\":{ended_unix_ns},\
         \"missed_windows\":{missed_windows},\"run\":{run}"
    )
}

/// Rows of one table, window by window, as a record batch. Rows of tables that have no time of
/// their own get the window's; all get when it ended by the wall clock, and the run.
pub struct Batch {
    table: usize,
    schema: SchemaRef,
    columns: Vec<Cells>,
    rows: usize,
}

enum Cells {
    Bool(BooleanBuilder),
    I32(Int32Builder),
    I64(Int64Builder),
    U32(UInt32Builder),
    U64(UInt64Builder),
    F64(Float64Builder),
    Text(StringBuilder),
}

/// The window's own columns, before the table's.
const OWN: [(&str, ColumnType); 3] =
    [("window_ts", ColumnType::I64), ("ended_unix_ns", ColumnType::U64), ("run", ColumnType::U64)];

impl Batch {
    /// For rows of the table at this place in [`TABLES`].
    pub fn new(table: usize) -> Self {
        let own = OWN.map(|(name, ty)| Field::new(name, data_type(ty), false));
        let of_table = columns(table).iter();
        // What is missing is null in every column.
        let of_table = of_table.map(|column| Field::new(column.name, data_type(column.ty), true));
        let schema = Arc::new(Schema::new(own.into_iter().chain(of_table).collect::<Vec<_>>()));
        let types = OWN.iter().map(|(_, ty)| *ty).chain(columns(table).iter().map(|c| c.ty));
        Batch { table, schema, columns: types.map(Cells::new).collect(), rows: 0 }
    }

    /// Its columns: the window's own, then the table's.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds the rows of a window.
    pub fn add(&mut self, window: &Snapshot, run: u64) {
        self.add_of(window, run, &Rows::default().of(window));
    }

    /// Adds some of them.
    pub(crate) fn add_of(&mut self, window: &Snapshot, run: u64, rows: &RowsOf<'_>) {
        let wanted = TABLES.get(self.table).copied().unwrap_or_default();
        let Ok(()) = window.each_row_of::<Infallible>(wanted, |row, _| {
            if rows.has(wanted, row) {
                self.push(window, run, row);
            }
            Ok(())
        });
    }

    fn push(&mut self, window: &Snapshot, run: u64, row: &dyn Record) {
        let own = [Cell::I64(window.ts), Cell::U64(window.ended_unix_ns), Cell::U64(run)];
        let mut columns = self.columns.iter_mut();
        for (cell, column) in own.iter().zip(&mut columns) {
            column.push(cell);
        }
        row.each_cell(&mut |_, cell| {
            if let Some(column) = columns.next() {
                column.push(&cell);
            }
        });
        self.rows += 1;
    }

    /// The batch so far; the next begins empty.
    ///
    /// # Errors
    /// Arrow's; rows always fit their columns.
    pub fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        self.rows = 0;
        let columns = self.columns.iter_mut().map(Cells::finish).collect();
        RecordBatch::try_new(self.schema(), columns)
    }
}

fn data_type(ty: ColumnType) -> DataType {
    match ty {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::I32 => DataType::Int32,
        ColumnType::U32 => DataType::UInt32,
        ColumnType::I64 => DataType::Int64,
        ColumnType::U64 => DataType::UInt64,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Text => DataType::Utf8,
    }
}

impl Cells {
    fn new(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Bool => Cells::Bool(BooleanBuilder::new()),
            ColumnType::I32 => Cells::I32(Int32Builder::new()),
            ColumnType::I64 => Cells::I64(Int64Builder::new()),
            ColumnType::U32 => Cells::U32(UInt32Builder::new()),
            ColumnType::U64 => Cells::U64(UInt64Builder::new()),
            ColumnType::F64 => Cells::F64(Float64Builder::new()),
            ColumnType::Text => Cells::Text(StringBuilder::new()),
        }
    }

    /// A cell of another type than its column's, which no row has, would be null.
    fn push(&mut self, cell: &Cell<'_>) {
        match (self, cell) {
            (Cells::Bool(to), Cell::Bool(v)) => to.append_value(*v),
            (Cells::Bool(to), _) => to.append_null(),
            (Cells::I32(to), Cell::I64(v)) => to.append_option(i32::try_from(*v).ok()),
            (Cells::I32(to), _) => to.append_null(),
            (Cells::I64(to), Cell::I64(v)) => to.append_value(*v),
            (Cells::I64(to), _) => to.append_null(),
            (Cells::U32(to), Cell::U64(v)) => to.append_option(u32::try_from(*v).ok()),
            (Cells::U32(to), _) => to.append_null(),
            (Cells::U64(to), Cell::U64(v)) => to.append_value(*v),
            (Cells::U64(to), _) => to.append_null(),
            (Cells::F64(to), Cell::F64(v)) => to.append_value(*v),
            (Cells::F64(to), _) => to.append_null(),
            (Cells::Text(to), Cell::Str(v)) => to.append_value(v),
            (Cells::Text(to), _) => to.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Cells::Bool(from) => Arc::new(from.finish()),
            Cells::I32(from) => Arc::new(from.finish()),
            Cells::I64(from) => Arc::new(from.finish()),
            Cells::U32(from) => Arc::new(from.finish()),
            Cells::U64(from) => Arc::new(from.finish()),
            Cells::F64(from) => Arc::new(from.finish()),
            Cells::Text(from) => Arc::new(from.finish()),
        }
    }
}
