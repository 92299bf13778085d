//! The rows of a recording on their way to [`Rows`](super::Rows).

use super::packed::Packed;
use transect_model::table::{Row, TableDoc, TableSink, Tables};

/// Keeps the rows of chosen tables for [`Rows`](super::Rows), packed where they are many: a thread's state takes half of what it
/// takes in [`Tables`], a vCPU's three quarters. Packed rows are in no table.
#[derive(Debug, Default)]
pub struct Gathered {
    wanted: Vec<&'static str>,
    tables: Tables,
    packed: Packed,
}

impl Gathered {
    /// Keeps the rows of these tables.
    pub fn new(wanted: &[TableDoc]) -> Self {
        let wanted = wanted.iter().map(|table| table.name).collect();
        Gathered { wanted, ..Gathered::default() }
    }

    /// Takes a row, whether it is wanted or not.
    pub fn take(&mut self, row: Row) {
        if let Some(row) = self.packed.take(row) {
            self.tables.row(row);
        }
    }

    /// The small tables, and the rows of the others.
    pub fn into_parts(self) -> (Tables, Packed) {
        (self.tables, self.packed)
    }
}

impl TableSink for Gathered {
    fn row(&mut self, row: Row) {
        if self.wanted.contains(&row.table()) {
            self.take(row);
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.wanted.contains(&table.name)
    }
}
