//! One row group in memory: columns encoded and compressed, ready to be put behind others in a file.

use super::schema::Layout;
use crate::error::StoreError;
use bytes::Bytes;
use parquet::column::writer::{ColumnCloseResult, get_column_writer, get_typed_column_writer};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::writer::{
    SerializedFileWriter, SerializedPageWriter, SerializedRowGroupWriter, TrackedWrite,
};
use std::io::Write;

/// Encodes the columns of a row group one after the other, in the layout's order.
pub(crate) struct GroupEncoder<'a> {
    pub(crate) layout: &'a Layout,
    out: TrackedWrite<Vec<u8>>,
    columns: Vec<ColumnCloseResult>,
}

/// An encoded row group.
pub(crate) struct RowGroup {
    pub(crate) rows: u64,
    bytes: Bytes,
    columns: Vec<ColumnCloseResult>,
}

impl<'a> GroupEncoder<'a> {
    pub(crate) fn new(layout: &'a Layout) -> Self {
        GroupEncoder { layout, out: TrackedWrite::new(Vec::new()), columns: Vec::new() }
    }

    /// May values of the column at this place be missing?
    pub(crate) fn is_nullable(&self, at: usize) -> bool {
        self.layout.columns.columns().get(at).is_some_and(|column| column.max_def_level() > 0)
    }

    /// Writes the next column. `present` says for each row of a nullable column whether it has a
    /// value (1) or not (0); `values` holds those that are there.
    pub(crate) fn column<T: DataType>(
        &mut self,
        values: &[T::T],
        present: Option<&[i16]>,
    ) -> Result<(), StoreError> {
        let result = self.write::<T>(values, present);
        result.map_err(|error| self.layout.failed(&error))
    }

    fn write<T: DataType>(
        &mut self,
        values: &[T::T],
        present: Option<&[i16]>,
    ) -> Result<(), ParquetError> {
        let column = self.layout.columns.columns().get(self.columns.len());
        let column = column.ok_or_else(|| ParquetError::General("an extra column".into()))?;
        let pages = Box::new(SerializedPageWriter::new(&mut self.out));
        let properties = self.layout.properties.clone();
        let writer = get_column_writer(column.clone(), properties, pages);
        let mut writer = get_typed_column_writer::<T>(writer);
        writer.write_batch(values, present, None)?;
        self.columns.push(writer.close()?);
        Ok(())
    }

    /// The group of `rows` rows.
    pub(crate) fn finish(self, rows: usize) -> Result<RowGroup, StoreError> {
        let layout = self.layout;
        let bytes = self.out.into_inner().map_err(|error| layout.failed(&error))?;
        let rows = u64::try_from(rows).unwrap_or(u64::MAX);
        Ok(RowGroup { rows, bytes: bytes.into(), columns: self.columns })
    }
}

impl RowGroup {
    /// Puts the group behind those the file has.
    pub(crate) fn append_to<W: Write + Send>(
        self,
        file: &mut SerializedFileWriter<W>,
    ) -> Result<(), ParquetError> {
        let mut group: SerializedRowGroupWriter<'_, W> = file.next_row_group()?;
        for column in self.columns {
            group.append_column(&self.bytes, column)?;
        }
        group.close()?;
        Ok(())
    }
}
