//! Which tables there are: from the folder of a recording's tables to SQL names.
//!
//! **Layout read.** `<table>.parquet`, or any `*.parquet` at any depth below `<table>/`; a folder
//! `machine_id=N` on the way says that all rows of its files are of machine N, which lets files
//! be left out without being opened. Events lie below `events/name=<event>/`.

mod events;
mod files;
mod held;
mod schema;
mod table;

pub(crate) use schema::arrow_schema;
pub(crate) use table::RecordingTable;

use crate::error::QueryError;
use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use files::{Files, Reach};
use held::HeldStore;
use std::path::Path;
use std::sync::Arc;
use transect_model::table::{TABLES, TableDoc};

/// The files of a recording's tables.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<(&'static TableDoc, Files)>,
    events: Vec<(String, Files)>,
    reach: Reach,
}

impl Tables {
    /// Finds the files below `dir`. Queries open them by their paths.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn find(dir: &Path) -> Result<Self, QueryError> {
        Self::below(dir, Reach::ByPath)
    }

    /// Opens all files below `dir`. Queries read them by their descriptors, also in a process that can no longer open
    /// files, and never spill to a temporary file.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be read.
    pub fn hold(dir: &Path) -> Result<Self, QueryError> {
        Self::below(dir, Reach::Held)
    }

    fn below(dir: &Path, reach: Reach) -> Result<Self, QueryError> {
        let unreadable = |source| QueryError::Tables { path: dir.to_owned(), source };
        dir.read_dir().map_err(unreadable)?;
        let files = |doc: &'static TableDoc| Ok((doc, Files::of_table(dir, doc.name, reach)?));
        let tables = TABLES.iter().map(files).collect::<Result<_, QueryError>>()?;
        Ok(Self { tables, events: events::find(dir, reach)?, reach })
    }

    /// Number of files.
    pub fn count_files(&self) -> usize {
        let of_tables = self.tables.iter().map(|(_, files)| files.0.len());
        of_tables.chain(self.events.iter().map(|(_, files)| files.0.len())).sum()
    }

    pub(crate) fn is_held(&self) -> bool {
        self.reach == Reach::Held
    }

    fn open_files(&self) -> HeldStore {
        let of_tables = self.tables.iter().flat_map(|(_, files)| &files.0);
        let of_events = self.events.iter().flat_map(|(_, files)| &files.0);
        HeldStore::new(of_tables.chain(of_events).filter_map(|file| file.held.as_ref()))
    }
}

/// Registers every table; those without files are empty.
pub(crate) fn register(context: &SessionContext, tables: Tables) -> Result<(), QueryError> {
    if tables.is_held() {
        let url = ObjectStoreUrl::local_filesystem();
        context.register_object_store(url.as_ref(), Arc::new(tables.open_files()));
    }
    for (doc, files) in tables.tables {
        let table = RecordingTable::new(arrow_schema(doc), files);
        add(context, doc.name, Arc::new(table))?;
    }
    events::register(context, tables.events)
}

fn add(
    context: &SessionContext,
    name: &str,
    table: Arc<dyn TableProvider>,
) -> Result<(), QueryError> {
    let registered = context.register_table(name, table);
    registered.map(drop).map_err(|error| internal(&error))
}

fn internal(error: &DataFusionError) -> QueryError {
    QueryError::Run { message: error.to_string() }
}
