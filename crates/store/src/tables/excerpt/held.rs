//! What holds when a range begins: of values that hold until the next one, the last before it.

use crate::error::StoreError;
use crate::tables::read::{Column, Frame, TableFile, Timing, Values};
use crate::tables::schema::{FileColumn, file_columns};
use rustc_hash::FxHashMap;
use transect_model::table::TableDoc;

/// Of every subject the last row that is not after a moment. What a row is about is told by all its
/// columns but the stamp and the value.
pub(super) struct Held {
    moment: i64,
    columns: Vec<FileColumn>,
    timing: Timing,
    value: Option<usize>,
    last: FxHashMap<Vec<u8>, (i64, Frame)>,
}

impl Held {
    pub(super) fn at(moment: i64, table: &TableDoc) -> Self {
        let columns = file_columns(table);
        let value = columns.iter().position(|column| column.name == "value");
        let (timing, last) = (Timing::of(table), FxHashMap::default());
        Held { moment, columns, timing, value, last }
    }

    /// Looks through a file.
    pub(super) fn file(&mut self, file: &TableFile) -> Result<(), StoreError> {
        for group in 0..file.groups() {
            let first = self.timing.ts.and_then(|at| file.bounds(group, at)).map(|bounds| bounds.0);
            if first.is_some_and(|first| first > self.moment) {
                continue;
            }
            let mut frames = file.frames(group)?;
            while let Some(frame) = frames.next()? {
                self.frame(&frame);
            }
        }
        Ok(())
    }

    fn frame(&mut self, frame: &Frame) {
        let Some(ts) = self.timing.ts.and_then(|at| frame.columns.get(at)) else { return };
        let marks: Vec<Vec<u64>> = self.keys(frame).map(Column::marks).collect();
        let mut subjects: FxHashMap<Vec<u64>, (i64, usize)> = FxHashMap::default();
        for (row, ts) in ts.numbers().into_iter().enumerate() {
            let Some(ts) = ts.filter(|ts| *ts <= self.moment) else { continue };
            let subject = marks.iter().filter_map(|marks| marks.get(row).copied()).collect();
            let known = subjects.entry(subject).or_insert((ts, row));
            // Of equal stamps the later row holds.
            if known.0 <= ts {
                *known = (ts, row);
            }
        }
        for (ts, row) in subjects.into_values() {
            self.note(ts, frame, row);
        }
    }

    fn note(&mut self, ts: i64, frame: &Frame, row: usize) {
        let mut one = Frame::none(frame.columns.iter().map(|column| column.ty));
        one.extend(frame, &[row]);
        let cells = self.keys(&one).map(|column| match column.present.first() {
            Some(0) => "-;".to_owned(),
            _ => format!("{:?};", column.cell(0)),
        });
        let subject: Vec<u8> = cells.collect::<String>().into_bytes();
        if self.last.get(&subject).is_none_or(|(known, _)| *known <= ts) {
            self.last.insert(subject, (ts, one));
        }
    }

    fn keys<'f>(&self, frame: &'f Frame) -> impl Iterator<Item = &'f Column> {
        let (ts, value) = (self.timing.ts, self.value);
        let columns = frame.columns.iter().enumerate();
        let keys = columns.filter(move |(at, _)| Some(*at) != ts && Some(*at) != value);
        keys.map(|(_, column)| column)
    }

    /// The values that hold at the moment as rows that begin there, and their columns; none if there
    /// are none. A subject that has a row at that very moment needs no other.
    pub(super) fn rows(self) -> Option<(Frame, Vec<FileColumn>)> {
        let before = |(_, (ts, _)): &(Vec<u8>, (i64, Frame))| *ts < self.moment;
        let mut held: Vec<_> = self.last.into_iter().filter(before).collect();
        held.sort_by(|a, b| a.0.cmp(&b.0));
        let mut all = Frame::none(self.columns.iter().map(|column| column.ty));
        for (_, (_, row)) in &held {
            all.extend(row, &[0]);
        }
        let ts = self.timing.ts.and_then(|at| all.columns.get_mut(at));
        if let Some(Column { values: Values::I64(ts), .. }) = ts {
            ts.fill(self.moment);
        }
        (all.rows > 0).then_some((all, self.columns))
    }
}
