//! What could not be read of a recording, for the verbs whose output does not show the import log.

use crate::terminal::note;
use transect_model::table::{ImportLog, Row, TableDoc, TableSink};

/// Lines printed one by one at most.
const MOST_LINES: usize = 5;

/// The source of the engine's own rows.
const ENGINE: &str = "engine";

/// Rows of the import log that say that a file lacks data. What the engine could not explain in whole files is not
/// among them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    first: Vec<ImportLog>,
    count: usize,
}

impl Losses {
    /// Those among the rows of the import log.
    pub(crate) fn among<'r>(rows: impl IntoIterator<Item = &'r ImportLog>) -> Self {
        let mut losses = Losses::default();
        rows.into_iter().for_each(|row| losses.add(row));
        losses
    }

    fn add(&mut self, row: &ImportLog) {
        if row.data_loss && row.source != ENGINE {
            self.count += 1;
            if self.first.len() < MOST_LINES {
                self.first.push(row.clone());
            }
        }
    }

    /// Prints them on standard error; `more` says where the others are.
    pub(crate) fn print(&self, more: &str) {
        for ImportLog { source, offset, message, .. } in &self.first {
            match offset {
                Some(offset) => note!("{source}: byte {offset}: {message}"),
                None => note!("{source}: {message}"),
            }
        }
        if self.count > self.first.len() {
            note!("and {} more problems of the recording: {more}", self.count - self.first.len());
        }
    }
}

/// Passes rows on, and notes the losses among them.
pub(crate) struct Noting<'s, S> {
    pub(crate) sink: &'s mut S,
    pub(crate) losses: Losses,
}

impl<'s, S: TableSink> Noting<'s, S> {
    pub(crate) fn new(sink: &'s mut S) -> Self {
        Noting { sink, losses: Losses::default() }
    }
}

impl<S: TableSink> TableSink for Noting<'_, S> {
    #[inline]
    fn row(&mut self, row: Row) {
        if let Row::ImportLog(row) = &row {
            self.losses.add(row);
        }
        self.sink.row(row);
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.sink.wants(table) || table.name == ImportLog::TABLE.name
    }
}
