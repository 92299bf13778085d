//! What could not be read of a recording, for those whose output does not show the import log.

use transect_model::table::{ImportLog, Row, TableDoc, TableSink};
use transect_store::tables::{Problem, Problems};

/// Lines printed one by one at most.
const MOST_LINES: usize = 5;

/// Those among the rows of the import log.
pub fn among<'r>(rows: impl IntoIterator<Item = &'r ImportLog>) -> Problems {
    let mut losses = Problems::default();
    rows.into_iter().for_each(|row| losses.add(row));
    losses
}

/// Them in words, one line each; `more` says where the others are.
pub fn lines(losses: &Problems, more: &str) -> Vec<String> {
    let line = |Problem { source, offset, message }: &Problem| match offset {
        Some(offset) => format!("{source}: byte {offset}: {message}"),
        None => format!("{source}: {message}"),
    };
    let mut lines: Vec<String> = losses.first.iter().take(MOST_LINES).map(line).collect();
    let listed = lines.len() as u64;
    if losses.count > listed {
        lines.push(format!("and {} more problems of the recording: {more}", losses.count - listed));
    }
    lines
}

/// Passes rows on, and notes the losses among them.
pub struct Noting<'s, S> {
    /// Where the rows go.
    pub sink: &'s mut S,
    /// The losses among those that passed.
    pub losses: Problems,
}

impl<'s, S: TableSink> Noting<'s, S> {
    /// With no losses yet.
    pub fn new(sink: &'s mut S) -> Self {
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
