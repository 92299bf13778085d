//! Rows of the model out of the columns of files: the way back of the writer.

use super::file::damaged;
use super::files::{folders, open_folder};
use super::frame::Frame;
use super::order::InOrder;
use crate::error::StoreError;
use crate::tables::range::Range;
use std::path::Path;
use transect_integrity::Folder;
use transect_model::cell::Cell;
use transect_model::column::{ColumnSource, ColumnValue, Columnar};
use transect_model::table::{TableSink, TableVisitor, each_table};

/// Hands out the rows of every table in the folder `tables` that meet `range`, whole, one table after
/// the other: those that the sink wants, machine by machine, in order of `ts`. How many there were.
///
/// # Errors
/// A file is damaged, or has other columns than this version's tables.
pub fn read_rows(tables: &Path, range: Range, sink: &mut dyn TableSink) -> Result<u64, StoreError> {
    let mut reading = Reading { tables: open_folder(tables)?, range, sink, rows: 0 };
    each_table(&mut reading)?;
    Ok(reading.rows)
}

struct Reading<'a> {
    tables: Folder,
    range: Range,
    sink: &'a mut dyn TableSink,
    rows: u64,
}

impl TableVisitor for Reading<'_> {
    type Error = StoreError;

    fn table<R: Columnar>(&mut self) -> Result<(), StoreError> {
        if !self.sink.wants(&R::TABLE) {
            return Ok(());
        }
        for folder in folders(&self.tables, R::TABLE.name)? {
            let mut rows = InOrder::new(&folder, &R::TABLE, self.range)?;
            while let Some((frame, from, to)) = rows.next()? {
                let mut row = RowOf::new(frame, from);
                for _ in from..to {
                    let made = row.next::<R>();
                    let place = || self.tables.dir().join(&folder.name);
                    let made = made.map_err(|why| damaged(&place(), &why))?;
                    self.sink.row(made.into());
                    self.rows += 1;
                }
            }
        }
        Ok(())
    }
}

/// Goes through a frame row by row.
struct RowOf<'f> {
    frame: &'f Frame,
    row: usize,
    /// The column that is asked for next.
    column: usize,
    /// Of each column, where its next value is among those that are there.
    places: Vec<usize>,
}

impl<'f> RowOf<'f> {
    fn new(frame: &'f Frame, row: usize) -> Self {
        let before = |present: &[i16]| present.iter().filter(|has| **has != 0).count();
        let place = |column: &super::Column| match column.present.get(..row) {
            Some(present) => before(present),
            None => row,
        };
        RowOf { frame, row, column: 0, places: frame.columns.iter().map(place).collect() }
    }

    fn next<R: Columnar>(&mut self) -> Result<R, String> {
        self.column = 0;
        let row = R::read(self);
        self.row += 1;
        row
    }
}

impl ColumnSource for RowOf<'_> {
    type Error = String;

    fn value<T: ColumnValue>(&mut self, name: &'static str) -> Result<T, String> {
        let at = self.column;
        self.column += 1;
        let column = self.frame.columns.get(at).ok_or("a column is missing")?;
        let cell = match column.present.get(self.row) {
            Some(0) => Cell::Null,
            _ => {
                let place = self.places[at];
                self.places[at] += 1;
                column.cell(place).ok_or_else(|| format!("{name} is not valid text"))?
            }
        };
        T::from_cell(&cell).ok_or_else(|| format!("{name} has the invalid value {cell:?}"))
    }
}
