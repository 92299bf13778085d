//! A window with its tables as JSON, made once for all who send or write them.

use super::tables::COUNT;
use std::sync::{Arc, OnceLock};
use transect_live::{Snapshot, TABLES, lines};

/// A window, and what was rendered of it so far.
pub(crate) struct Rendered {
    snapshot: Arc<Snapshot>,
    tables: [OnceLock<lines::Rendered>; COUNT],
}

impl Rendered {
    pub(crate) fn new(snapshot: Arc<Snapshot>) -> Self {
        Rendered { snapshot, tables: Default::default() }
    }

    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The rows of a table (by its place in `TABLES`) as JSON.
    pub(crate) fn json(&self, table: usize) -> Arc<Vec<u8>> {
        self.table(table).map_or_else(Arc::default, lines::Rendered::json)
    }

    fn table(&self, table: usize) -> Option<&lines::Rendered> {
        let name = TABLES.get(table)?;
        Some(self.tables.get(table)?.get_or_init(|| lines::Rendered::table(&self.snapshot, name)))
    }

    /// Appends it as lines, as the history has them.
    pub(crate) fn push_lines(&self, out: &mut Vec<u8>) {
        let tables = (0..COUNT).filter_map(|table| self.table(table));
        lines::push_rendered(&self.snapshot, tables, out);
    }
}
