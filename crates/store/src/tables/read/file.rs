//! One Parquet file of a table: its columns, the bounds of its row groups, and its frames.

use super::frame::{Column, Frame, Values};
use crate::error::{StoreError, read_error};
use crate::tables::schema::{FileColumn, file_columns};
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::schema::types::Type;
use std::cmp::Ordering;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use transect_integrity::{CheckedFile, KnownFile};
use transect_model::column::ColumnType;
use transect_model::table::TableDoc;

/// Rows of a frame.
const FRAME_ROWS: usize = 16 * 1024;
/// Rows of a row group at most (`GROUP_ROWS` of the writer): more would be nobody's that we know.
const MAX_GROUP_ROWS: i64 = 1 << 20;

/// An open file of a table.
pub(crate) struct TableFile {
    known: KnownFile,
    reader: SerializedFileReader<CheckedFile>,
    columns: Arc<[FileColumn]>,
}

impl TableFile {
    /// Opens it and reads what it says of itself.
    pub(crate) fn open(known: &KnownFile) -> Result<Self, StoreError> {
        let path = known.path();
        let file = known.open().map_err(read_error("open", path))?;
        let opened = guarded(known, || SerializedFileReader::new(file))?;
        let fields = opened.metadata().file_metadata().schema().get_fields();
        let columns = fields.iter().map(|field| column(field)).collect::<Option<Vec<_>>>();
        let columns = columns.ok_or_else(|| damaged(path, "a column has an unsupported type"))?;
        let groups = opened.metadata().row_groups();
        if groups.iter().any(|group| !(0..=MAX_GROUP_ROWS).contains(&group.num_rows())) {
            return Err(damaged(path, "a row group has an invalid number of rows"));
        }
        Ok(TableFile { known: known.clone(), reader: opened, columns: columns.into() })
    }

    pub(crate) fn columns(&self) -> &[FileColumn] {
        &self.columns
    }

    /// Has it the columns that the model says the table has?
    ///
    /// # Errors
    /// It has others: written by a transect of other tables.
    pub(crate) fn check(&self, table: &TableDoc) -> Result<(), StoreError> {
        let wanted = file_columns(table);
        let mut pairs = wanted.iter().zip(self.columns.iter());
        let other = pairs.find(|(wanted, found)| wanted != found).map(|(wanted, _)| &wanted.name);
        let reason = match (other, wanted.len().cmp(&self.columns.len())) {
            (Some(name), _) => format!("its column {name} differs"),
            (None, Ordering::Equal) => return Ok(()),
            (None, _) => format!("{} columns, expected {}", self.columns.len(), wanted.len()),
        };
        Err(StoreError::OtherTable {
            path: self.known.path().to_owned(),
            table: table.name,
            reason,
        })
    }

    pub(crate) fn groups(&self) -> usize {
        self.reader.metadata().num_row_groups()
    }

    pub(crate) fn rows(&self) -> u64 {
        let groups = self.reader.metadata().row_groups().iter();
        groups.map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    /// Where the column of this name is.
    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }

    /// The smallest and largest number of a column in a row group, where its file tells.
    pub(crate) fn bounds(&self, group: usize, column: usize) -> Option<(i64, i64)> {
        let group = self.reader.metadata().row_groups().get(group)?;
        match group.columns().get(column)?.statistics()? {
            Statistics::Int64(stats) => Some((*stats.min_opt()?, *stats.max_opt()?)),
            _ => None,
        }
    }

    /// The frames of a row group.
    pub(crate) fn frames(&self, group: usize) -> Result<Frames, StoreError> {
        let rows = self.reader.metadata().row_groups().get(group).map_or(0, |g| g.num_rows());
        let readers = guarded(&self.known, || {
            let group = self.reader.get_row_group(group)?;
            (0..self.columns.len()).map(|at| group.get_column_reader(at)).collect()
        })?;
        let left = usize::try_from(rows).unwrap_or(0);
        let (known, columns) = (self.known.clone(), Arc::clone(&self.columns));
        Ok(Frames { known, columns, readers, left })
    }
}

/// Reads a row group, some thousand rows at a time.
pub(crate) struct Frames {
    known: KnownFile,
    columns: Arc<[FileColumn]>,
    readers: Vec<ColumnReader>,
    left: usize,
}

impl Frames {
    /// The next rows; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, StoreError> {
        let rows = self.left.min(FRAME_ROWS);
        if rows == 0 {
            return Ok(None);
        }
        self.left -= rows;
        let (readers, types) = (&mut self.readers, &self.columns);
        let columns = guarded(&self.known, || {
            let each = readers.iter_mut().zip(types.iter());
            each.map(|(reader, column)| read(reader, column, rows)).collect::<Result<Vec<_>, _>>()
        })?;
        Ok(Some(Frame { rows, columns }))
    }
}

fn read(
    reader: &mut ColumnReader,
    column: &FileColumn,
    rows: usize,
) -> Result<Column, ParquetError> {
    let mut present = Vec::new();
    let values = match reader {
        ColumnReader::BoolColumnReader(r) => Values::Bool(values(r, &mut present, rows)?),
        ColumnReader::Int32ColumnReader(r) => Values::I32(values(r, &mut present, rows)?),
        ColumnReader::Int64ColumnReader(r) => Values::I64(values(r, &mut present, rows)?),
        ColumnReader::DoubleColumnReader(r) => Values::F64(values(r, &mut present, rows)?),
        ColumnReader::ByteArrayColumnReader(r) => Values::Text(values(r, &mut present, rows)?),
        _ => return Err(ParquetError::General("unsupported type".to_owned())),
    };
    if !column.nullable {
        present.clear();
    }
    Ok(Column { ty: column.ty, present, values })
}

/// The values of so many rows, and which rows have one.
fn values<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    present: &mut Vec<i16>,
    rows: usize,
) -> Result<Vec<T::T>, ParquetError> {
    let (mut values, mut read) = (Vec::new(), 0);
    while read < rows {
        let (more, _, _) = reader.read_records(rows - read, Some(present), None, &mut values)?;
        if more == 0 {
            return Err(ParquetError::General("a column ends too early".to_owned()));
        }
        read += more;
    }
    let there = present.iter().filter(|has| **has != 0).count();
    match values.len() == if present.is_empty() { rows } else { there } {
        true => Ok(values),
        false => Err(ParquetError::General("values are missing".to_owned())),
    }
}

/// The column as the model would describe it; none if no table has such a column.
fn column(field: &Type) -> Option<FileColumn> {
    if !field.is_primitive() {
        return None;
    }
    let info = field.get_basic_info();
    let unsigned = matches!(
        info.logical_type_ref(),
        Some(LogicalType::Integer(integer)) if !integer.is_signed
    );
    let ty = match (field.get_physical_type(), unsigned) {
        (Physical::BOOLEAN, _) => ColumnType::Bool,
        (Physical::INT32, false) => ColumnType::I32,
        (Physical::INT32, true) => ColumnType::U32,
        (Physical::INT64, false) => ColumnType::I64,
        (Physical::INT64, true) => ColumnType::U64,
        (Physical::DOUBLE, _) => ColumnType::F64,
        (Physical::BYTE_ARRAY, _) => ColumnType::Text,
        _ => return None,
    };
    let nullable = match info.repetition() {
        Repetition::REQUIRED => false,
        Repetition::OPTIONAL => true,
        Repetition::REPEATED => return None,
    };
    Some(FileColumn { name: info.name().to_owned(), ty, nullable })
}

/// Runs what decodes a file. Its errors name the file, and a panic over damaged bytes is one of them.
fn guarded<T>(
    known: &KnownFile,
    work: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, StoreError> {
    let reason = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "the decoder panicked".to_owned(),
    };
    // Its checksums know better what happened than the decoder.
    Err(match known.damage() {
        Some(damage) => StoreError::Damaged(damage.clone()),
        None => damaged(known.path(), &reason),
    })
}

/// The error for a file that is not as it was written.
pub(super) fn damaged(path: &Path, reason: &str) -> StoreError {
    let reason = reason.lines().collect::<Vec<_>>().join(" ");
    StoreError::DamagedTable { path: path.to_owned(), reason }
}
