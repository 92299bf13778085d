//! The rows of a recording on their way to [`Rows`](super::Rows).

use super::packed::Packed;
use crate::parallel;
use transect_model::table::{Chosen, Row, TableDoc, TableSink, Tables};

/// Keeps the rows of chosen tables for [`Rows`](super::Rows), packed where they are many: a state takes half of what it takes in
/// [`Tables`]. Packed rows are in no table.
#[derive(Debug, Default)]
pub struct Gathered {
    wanted: Chosen,
    tables: Tables,
    packed: Packed,
}

impl Gathered {
    /// Keeps the rows of these tables.
    pub fn new(wanted: &[TableDoc]) -> Self {
        let wanted = Chosen::of(|table| wanted.iter().any(|wanted| wanted.name == table.name));
        Gathered { wanted, ..Gathered::default() }
    }

    /// Has `read` fill one for each of these tables, on all CPUs, and joins them.
    ///
    /// # Errors
    /// One of `read`.
    pub fn by_table<E: Send>(
        wanted: &[TableDoc],
        read: impl Fn(&mut Gathered) -> Result<(), E> + Sync,
    ) -> Result<Self, E> {
        let parts = parallel::map(wanted, |table| {
            let mut part = Gathered::new(std::slice::from_ref(table));
            read(&mut part).map(|()| part)
        });
        let mut whole = Gathered::new(wanted);
        for part in parts {
            let part = part?;
            whole.tables.append(part.tables);
            whole.packed.append(part.packed);
        }
        Ok(whole)
    }

    /// Takes a row, whether it is wanted or not.
    pub fn take(&mut self, row: Row) {
        if !self.packed.take(&row) {
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
        if self.wanted.has(&row) {
            self.take(row);
        }
    }

    fn wants(&self, table: &TableDoc) -> bool {
        self.wanted.names(table)
    }
}
