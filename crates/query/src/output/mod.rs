//! Results for people and programs: aligned tables, CSV, JSON, Arrow, Parquet.
//!
//! Every format is a [`BatchWriter`] that takes batches as they come; none holds the result in
//! memory (a table holds its first rows, to align them).

mod batch_writer;
mod table;

use crate::error::QueryError;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::io::{self, Write};
use std::sync::Arc;

pub use batch_writer::BatchWriter;
pub use table::Limits;

/// How a result is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Aligned columns, for people.
    Table(Limits),
    /// Comma-separated values with a header line; null is an empty field.
    Csv,
    /// One JSON array of objects; null is `null`.
    Json,
    /// One JSON object a line.
    JsonLines,
    /// An Arrow IPC file.
    Arrow,
    /// A Parquet file.
    Parquet,
}

/// A writer of a result with these columns.
///
/// # Errors
/// If the format cannot hold the columns, or its head cannot be written.
pub fn writer<'w, W: Write + Send + 'w>(
    format: Format,
    schema: &SchemaRef,
    to: W,
) -> Result<Box<dyn BatchWriter + 'w>, QueryError> {
    Ok(match format {
        Format::Table(limits) => Box::new(table::Table::new(schema, limits, to)),
        Format::Csv => {
            let writer = arrow::csv::WriterBuilder::new().with_header(true).build(to);
            Box::new(Csv { writer, schema: Arc::clone(schema), is_empty: true })
        }
        Format::Json => {
            let builder = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
            Box::new(Json(builder.build::<_, arrow::json::writer::JsonArray>(to)))
        }
        Format::JsonLines => {
            let builder = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
            Box::new(Json(builder.build::<_, arrow::json::writer::LineDelimited>(to)))
        }
        Format::Arrow => {
            let plain = plain_schema(schema);
            let writer = arrow::ipc::writer::FileWriter::try_new(to, &plain).map_err(other)?;
            Box::new(Ipc { writer, plain })
        }
        Format::Parquet => Box::new(ParquetOut::new(to, plain_schema(schema))?),
    })
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> QueryError {
    QueryError::Write(find_io(error))
}

/// The error of the file system inside, so that a full disk or closed pipe is seen as such.
fn find_io(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            let kind = io.kind();
            return match io.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(kind, io.to_string()),
            };
        }
        cause = inner.source();
    }
    // Arrow keeps a csv error's text only.
    let text = error.to_string();
    let kind =
        if text.contains("Broken pipe") { io::ErrorKind::BrokenPipe } else { io::ErrorKind::Other };
    io::Error::new(kind, error)
}

struct Csv<W: Write> {
    writer: arrow::csv::Writer<W>,
    schema: SchemaRef,
    is_empty: bool,
}

impl<W: Write + Send> BatchWriter for Csv<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<bool, QueryError> {
        self.is_empty = false;
        self.writer.write(batch).map_err(other).map(|()| true)
    }

    /// The header line is there without rows, too.
    fn finish(mut self: Box<Self>) -> Result<(), QueryError> {
        if self.is_empty {
            self.writer.write(&RecordBatch::new_empty(self.schema.clone())).map_err(other)?;
        }
        self.writer.into_inner().flush()?;
        Ok(())
    }
}

struct Json<W: Write, F: arrow::json::writer::JsonFormat>(arrow::json::Writer<W, F>);

impl<W: Write + Send, F: arrow::json::writer::JsonFormat> BatchWriter for Json<W, F> {
    fn write(&mut self, batch: &RecordBatch) -> Result<bool, QueryError> {
        self.0.write(batch).map_err(other).map(|()| true)
    }

    fn finish(mut self: Box<Self>) -> Result<(), QueryError> {
        self.0.finish().map_err(other)?;
        let mut to = self.0.into_inner();
        to.flush()?;
        Ok(())
    }
}

struct Ipc<W: Write> {
    writer: arrow::ipc::writer::FileWriter<W>,
    plain: SchemaRef,
}

impl<W: Write + Send> BatchWriter for Ipc<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<bool, QueryError> {
        let batch = plain(batch, &self.plain).map_err(other)?;
        self.writer.write(&batch).map_err(other).map(|()| true)
    }

    fn finish(mut self: Box<Self>) -> Result<(), QueryError> {
        self.writer.finish().map_err(other)?;
        self.writer.get_mut().flush()?;
        Ok(())
    }
}

struct ParquetOut<W: Write + Send> {
    writer: ArrowWriter<W>,
    plain: SchemaRef,
}

impl<W: Write + Send> ParquetOut<W> {
    fn new(to: W, plain: SchemaRef) -> Result<Self, QueryError> {
        let level = ZstdLevel::try_new(1).map_err(other)?;
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
        let writer = ArrowWriter::try_new(to, Arc::clone(&plain), Some(properties.build()));
        Ok(Self { writer: writer.map_err(other)?, plain })
    }
}

impl<W: Write + Send> BatchWriter for ParquetOut<W> {
    fn write(&mut self, batch: &RecordBatch) -> Result<bool, QueryError> {
        let batch = plain(batch, &self.plain).map_err(other)?;
        self.writer.write(&batch).map_err(other).map(|()| true)
    }

    fn finish(self: Box<Self>) -> Result<(), QueryError> {
        self.writer.into_inner().map_err(other)?.flush()?;
        Ok(())
    }
}

/// Text as offsets and bytes, which every reader of Arrow knows; not all know views.
fn plain_schema(schema: &SchemaRef) -> SchemaRef {
    let plain = |field: &Arc<Field>| match field.data_type() {
        DataType::Utf8View => field.as_ref().clone().with_data_type(DataType::Utf8),
        DataType::BinaryView => field.as_ref().clone().with_data_type(DataType::Binary),
        _ => field.as_ref().clone(),
    };
    Arc::new(Schema::new(schema.fields().iter().map(plain).collect::<Vec<_>>()))
}

fn plain(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, arrow::error::ArrowError> {
    let pairs = batch.columns().iter().zip(schema.fields());
    let columns: Vec<ArrayRef> =
        pairs.map(|(column, field)| cast(column, field.data_type())).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
