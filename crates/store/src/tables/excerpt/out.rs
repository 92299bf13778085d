//! The files that an excerpt's folder gets.

use crate::error::{StoreError, io_error};
use crate::tables::group::GroupEncoder;
use crate::tables::read::Frame;
use crate::tables::schema::{FileColumn, Layout};
use crate::tables::written::Files;
use parquet::file::writer::SerializedFileWriter;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use transect_integrity::SummingWriter;

/// Where the files of a folder go.
pub(super) struct OutFolder {
    dir: PathBuf,
    written: Arc<Files>,
    stem: &'static str,
    files: u32,
    /// Written so far.
    pub(super) rows: u64,
    /// Of the files that are whole.
    pub(super) bytes: u64,
}

impl OutFolder {
    pub(super) fn new(dir: PathBuf, written: Arc<Files>) -> Self {
        OutFolder { dir, written, stem: "bucket", files: 0, rows: 0, bytes: 0 }
    }

    /// The next files are of this kind.
    pub(super) fn turn_to(&mut self, stem: &'static str) {
        if self.stem != stem {
            (self.stem, self.files) = (stem, 0);
        }
    }

    /// Writes a row group and empties the frame; opens the next file if there is none.
    pub(super) fn group(
        &mut self,
        writer: &mut Option<OutFile>,
        table: &str,
        columns: &[FileColumn],
        frame: &mut Frame,
    ) -> Result<(), StoreError> {
        let mut open = match writer.take() {
            Some(open) => open,
            None => self.next(table, columns)?,
        };
        let full = std::mem::replace(frame, Frame::none(columns.iter().map(|column| column.ty)));
        self.rows += u64::try_from(full.rows).unwrap_or(0);
        open.group(&full)?;
        *writer = Some(open);
        Ok(())
    }

    /// Writes a file of these rows alone.
    pub(super) fn lone(
        &mut self,
        table: &str,
        columns: &[FileColumn],
        mut frame: Frame,
    ) -> Result<(), StoreError> {
        let mut writer = None;
        self.group(&mut writer, table, columns, &mut frame)?;
        if let Some(writer) = writer {
            self.bytes += writer.close()?;
        }
        Ok(())
    }

    fn next(&mut self, table: &str, columns: &[FileColumn]) -> Result<OutFile, StoreError> {
        transect_access::create_dir_all(&self.dir).map_err(io_error("make", &self.dir))?;
        let path = self.dir.join(format!("{}={}.parquet", self.stem, self.files));
        self.files += 1;
        let layout = Layout::new(table, columns)?;
        let file = transect_access::create_file(&path).map_err(io_error("make", &path))?;
        let (schema, properties) = (layout.schema.clone(), layout.properties.clone());
        let writer = SerializedFileWriter::new(SummingWriter::new(file), schema, properties);
        let writer = writer.map_err(|error| layout.write_failed(&path, error))?;
        Ok(OutFile { path, written: Arc::clone(&self.written), layout, writer })
    }
}

/// A file that is being written.
pub(super) struct OutFile {
    path: PathBuf,
    written: Arc<Files>,
    layout: Arc<Layout>,
    writer: SerializedFileWriter<SummingWriter<File>>,
}

impl OutFile {
    fn group(&mut self, frame: &Frame) -> Result<(), StoreError> {
        let mut encoder = GroupEncoder::new(&self.layout);
        frame.encode(&mut encoder)?;
        let group = encoder.finish(frame.rows)?;
        let appended = group.append_to(&mut self.writer);
        appended.map_err(|error| self.layout.write_failed(&self.path, error))
    }

    /// Bytes of the whole file.
    pub(super) fn close(mut self) -> Result<u64, StoreError> {
        let path = &self.path;
        self.writer.finish().map_err(|error| self.layout.write_failed(path, error))?;
        self.writer.flush().map_err(io_error("write", path))?;
        self.writer.inner().inner().sync_data().map_err(io_error("write", path))?;
        let sums = self.writer.inner().sums();
        let bytes = sums.bytes();
        self.written.add(path, sums);
        Ok(bytes)
    }
}
