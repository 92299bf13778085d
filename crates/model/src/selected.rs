//! A sink for the rows of chosen tables.

use crate::{
    column::TableDoc,
    row::{Chosen, Row, TableSink, Tables},
};

/// Keeps the rows of chosen tables, for views that need no others: of a hundred million events
/// the windows fit in memory, the thread states do not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selected {
    wanted: Chosen,
    tables: Tables,
}

impl Selected {
    /// Keeps these tables; the others stay empty.
    pub fn new(wanted: &[TableDoc]) -> Self {
        let wanted = Chosen::of(|table| wanted.iter().any(|wanted| wanted.name == table.name));
        Selected { wanted, tables: Tables::default() }
    }

    /// What was kept.
    pub fn into_tables(self) -> Tables {
        self.tables
    }
}

impl TableSink for Selected {
    fn row(&mut self, row: Row) {
        if self.wanted.has(&row) {
            self.tables.row(row);
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.wanted.names(table)
    }
}
