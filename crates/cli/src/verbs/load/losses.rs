//! What could not be read of a recording, for the verbs whose output does not show the import log.

use crate::terminal::note;
use transect_model::table::{ImportLog, Row, TableDoc, TableSink};
use transect_store::tables::{Problem, Problems};

/// Lines printed one by one at most.
const MOST_LINES: usize = 5;

/// Those among the rows of the import log.
pub(crate) fn among<'r>(rows: impl IntoIterator<Item = &'r ImportLog>) -> Problems {
    let mut losses = Problems::default();
    rows.into_iter().for_each(|row| losses.add(row));
    losses
}

/// Reports them on standard error, one line each; `more` says where the others are.
pub(crate) fn report(losses: &Problems, more: &str) {
    for Problem { source, offset, message } in losses.first.iter().take(MOST_LINES) {
        match offset {
            Some(offset) => note!("{source}: byte {offset}: {message}"),
            None => note!("{source}: {message}"),
        }
    }
    let listed = losses.first.len().min(MOST_LINES) as u64;
    if losses.count > listed {
        note!("and {} more problems of the recording: {more}", losses.count - listed);
    }
}

/// Passes rows on, and notes the losses among them.
pub(crate) struct Noting<'s, S> {
    pub(crate) sink: &'s mut S,
    pub(crate) losses: Problems,
}

impl<'s, S: TableSink> Noting<'s, S> {
    pub(crate) fn new(sink: &'s mut S) -> Self {
        Noting { sink, losses: Problems::default() }
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
