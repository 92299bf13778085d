//! Arrow's schema of a table, from the model's description.

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use transect_model::table::{ColumnType, TableDoc};

/// The schema SQL sees. Text is read as views: short words are compared without following a
/// pointer.
pub(crate) fn arrow_schema(table: &TableDoc) -> SchemaRef {
    let field = |column: &transect_model::table::Column| {
        Field::new(column.name, arrow_type(column.ty), column.nullable)
    };
    Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()))
}

/// The Arrow type of a column.
pub(crate) fn arrow_type(kind: ColumnType) -> DataType {
    match kind {
        ColumnType::Bool => DataType::Boolean,
        ColumnType::I32 => DataType::Int32,
        ColumnType::U32 => DataType::UInt32,
        ColumnType::I64 => DataType::Int64,
        ColumnType::U64 => DataType::UInt64,
        ColumnType::F64 => DataType::Float64,
        ColumnType::Text => DataType::Utf8View,
    }
}
