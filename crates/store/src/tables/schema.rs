//! What a Parquet file of ours looks like: schema, encodings, compression.
//!
//! One [`Layout`] per table, made from the columns the model describes, or from an event's fields.

use crate::error::{StoreError, io_error};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::{ColumnPath, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};
use std::io;
use std::path::Path;
use std::sync::Arc;
use transect_model::table::{Column, ColumnType, TableDoc};

/// One column as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileColumn {
    /// Its name.
    pub(crate) name: String,
    /// Its values.
    pub(crate) ty: ColumnType,
    /// May values be missing?
    pub(crate) nullable: bool,
}

/// How the files of one table are written.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The table, for messages.
    pub(crate) table: String,
    pub(crate) schema: TypePtr,
    pub(crate) columns: SchemaDescPtr,
    pub(crate) properties: WriterPropertiesPtr,
}

/// Rows of a data page: what a query for a short time has to decode at least.
const PAGE_ROWS: usize = 16 * 1024;
/// A dictionary that grows beyond this is not worth its lookups: the rest is delta-encoded.
const DICTIONARY_BYTES: usize = 256 * 1024;
/// zstd's fastest: the encodings have taken most of the redundancy out already.
const ZSTD_LEVEL: i32 = 1;

impl Layout {
    /// For a table of the model.
    pub(crate) fn of_table(table: &TableDoc) -> Result<Arc<Self>, StoreError> {
        Self::new(table.name, &file_columns(table))
    }

    /// For any columns; rows are in order of the column `ts`, if there is one.
    pub(crate) fn new(table: &str, columns: &[FileColumn]) -> Result<Arc<Self>, StoreError> {
        let failed = |error: ParquetError| StoreError::Encode {
            table: table.to_owned(),
            reason: error.to_string(),
        };
        let fields = columns.iter().map(field).collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let schema = Type::group_type_builder("schema").with_fields(fields).build();
        let schema = Arc::new(schema.map_err(failed)?);
        Ok(Arc::new(Layout {
            table: table.to_owned(),
            columns: Arc::new(SchemaDescriptor::new(Arc::clone(&schema))),
            schema,
            properties: Arc::new(properties(columns).map_err(failed)?),
        }))
    }

    /// An error of the Parquet encoder, with the table.
    pub(crate) fn failed(&self, error: &ParquetError) -> StoreError {
        StoreError::Encode { table: self.table.clone(), reason: error.to_string() }
    }

    /// The same where a file was written to. The Parquet crate hides the system's error in its own; a
    /// full disk has to be told as such.
    pub(crate) fn write_failed(&self, path: &Path, error: ParquetError) -> StoreError {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(source) => io_error("write", path)(*source),
                Err(source) => self.failed(&ParquetError::External(source)),
            },
            error => self.failed(&error),
        }
    }
}

/// The columns of a table of the model.
pub(crate) fn file_columns(table: &TableDoc) -> Vec<FileColumn> {
    let column = |column: &Column| FileColumn {
        name: column.name.to_owned(),
        ty: column.ty,
        nullable: column.nullable,
    };
    table.columns.iter().map(column).collect()
}

fn field(column: &FileColumn) -> Result<TypePtr, ParquetError> {
    let int = |bits, signed| Some(LogicalType::integer(bits, signed));
    let (physical, logical) = match column.ty {
        ColumnType::Bool => (Physical::BOOLEAN, None),
        ColumnType::I32 => (Physical::INT32, None),
        ColumnType::U32 => (Physical::INT32, int(32, false)),
        ColumnType::I64 => (Physical::INT64, None),
        ColumnType::U64 => (Physical::INT64, int(64, false)),
        ColumnType::F64 => (Physical::DOUBLE, None),
        ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let builder = Type::primitive_type_builder(&column.name, physical);
    builder.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
}

fn properties(columns: &[FileColumn]) -> Result<WriterProperties, ParquetError> {
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("transect ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_data_page_row_count_limit(PAGE_ROWS)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_write_batch_size(4096);
    for column in columns {
        let path = || ColumnPath::new(vec![column.name.clone()]);
        if let Some(encoding) = fallback(column.ty) {
            properties = properties.set_column_encoding(path(), encoding);
        }
        properties = properties.set_column_dictionary_enabled(path(), has_dictionary(column));
    }
    if let Some(at) = columns.iter().position(|column| column.name == "ts") {
        let path = ColumnPath::new(vec!["ts".to_owned()]);
        let column_idx = i32::try_from(at).unwrap_or(i32::MAX);
        let by_ts = SortingColumn { column_idx, descending: false, nulls_first: false };
        properties = properties
            .set_column_statistics_enabled(path, EnabledStatistics::Page)
            .set_sorting_columns(Some(vec![by_ts]));
    }
    Ok(properties.build())
}

/// How values are written that no dictionary holds.
fn fallback(ty: ColumnType) -> Option<Encoding> {
    match ty {
        ColumnType::I32 | ColumnType::U32 | ColumnType::I64 | ColumnType::U64 => {
            Some(Encoding::DELTA_BINARY_PACKED)
        }
        ColumnType::Text => Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        ColumnType::Bool | ColumnType::F64 => None,
    }
}

/// Ids and words repeat; stamps, lengths and other measures do not.
fn has_dictionary(column: &FileColumn) -> bool {
    match column.ty {
        ColumnType::Bool | ColumnType::I64 => false,
        ColumnType::I32 | ColumnType::U32 | ColumnType::U64 => true,
        ColumnType::F64 | ColumnType::Text => true,
    }
}
