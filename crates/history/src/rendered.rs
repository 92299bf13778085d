//! A window with its tables as JSON, made once for all who send or write them.

use std::sync::{Arc, OnceLock};
use transect_live::{Snapshot, TABLES, is_derived, lines};

/// How many tables a window has.
pub const COUNT: usize = TABLES.len();

/// When a window began, ns since 1970.
pub fn began_unix_ns(window: &Snapshot) -> u64 {
    window.ended_unix_ns.saturating_sub(u64::try_from(window.dur).unwrap_or(0))
}

/// A window, and what was rendered of it so far.
pub struct Rendered {
    snapshot: Arc<Snapshot>,
    tables: [OnceLock<lines::Rendered>; COUNT],
}

impl Rendered {
    /// With nothing rendered.
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Rendered { snapshot, tables: Default::default() }
    }

    /// The window.
    pub fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The rows of a table (by its place in `TABLES`) as JSON.
    pub fn json(&self, table: usize) -> Arc<Vec<u8>> {
        self.table(table).map_or_else(Arc::default, lines::Rendered::json)
    }

    fn table(&self, table: usize) -> Option<&lines::Rendered> {
        let name = TABLES.get(table)?;
        Some(self.tables.get(table)?.get_or_init(|| lines::Rendered::table(&self.snapshot, name)))
    }

    /// Appends it as lines, as the history has them: without what its readers make of the other rows.
    pub fn push_lines(&self, out: &mut Vec<u8>) {
        let kept = TABLES.iter().enumerate().filter(|(_, name)| !is_derived(name));
        let tables: Vec<_> =
            kept.filter_map(|(table, name)| Some((*name, self.table(table)?))).collect();
        lines::push_rendered(&self.snapshot, &tables, out);
    }
}
