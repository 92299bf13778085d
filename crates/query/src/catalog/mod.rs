//! Which tables there are: from the folder of a recording's tables to SQL names.
//!
//! **Layout read.** `<table>.parquet`, or any `*.parquet` at any depth below `<table>/`; a folder
//! `machine_id=N` on the way says that all rows of its files are of machine N, which lets files
//! be left out without being opened. Events lie below `events/name=<event>/`.

mod add;
mod events;
mod files;
mod held;
mod schema;
mod table;

pub(crate) use schema::arrow_schema;
pub(crate) use table::RecordingTable;

use crate::error::QueryError;
use add::add;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::prelude::SessionContext;
use files::{Files, From};
use held::{HeldStore, Reach};
use std::path::Path;
use std::sync::Arc;
use transect_integrity::Folder;
use transect_model::table::{TABLES, TableDoc};

/// The files of a recording's tables.
#[derive(Debug)]
pub struct Tables {
    tables: Vec<(&'static TableDoc, Files)>,
    events: Vec<(String, Files)>,
    reach: Reach,
    folder: Folder,
}

impl Tables {
    /// Finds the files below `dir`, and verifies that they are those that were written, as far as the folder has
    /// checksums. Queries open them by their paths and verify what they read.
    ///
    /// # Errors
    /// If the folder cannot be read, or is damaged.
    pub fn find(dir: &Path) -> Result<Self, QueryError> {
        Self::below(dir, Reach::ByPath)
    }

    /// The same with all files opened at once. Queries read them by their descriptors, also in a process that can no longer open
    /// files, and never spill to a temporary file.
    ///
    /// # Errors
    /// If the folder or a file in it cannot be read.
    pub fn hold(dir: &Path) -> Result<Self, QueryError> {
        Self::below(dir, Reach::Held)
    }

    fn below(dir: &Path, reach: Reach) -> Result<Self, QueryError> {
        let unreadable = |error| QueryError::tables(dir, error);
        dir.read_dir().map_err(unreadable)?;
        let folder = Folder::open(dir).map_err(unreadable)?;
        let from = From { folder: &folder, reach };
        let files = |doc: &'static TableDoc| Ok((doc, Files::of_table(dir, doc.name, from)?));
        let tables = TABLES.iter().map(files).collect::<Result<_, QueryError>>()?;
        let events = events::find(dir, from)?;
        Ok(Self { tables, events, reach, folder })
    }

    /// Number of files.
    pub fn count_files(&self) -> usize {
        let of_tables = self.tables.iter().map(|(_, files)| files.0.len());
        of_tables.chain(self.events.iter().map(|(_, files)| files.0.len())).sum()
    }

    /// Are there checksums to verify the files by?
    pub fn is_verified(&self) -> bool {
        self.folder.is_verified()
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn is_held(&self) -> bool {
        self.reach == Reach::Held
    }

    fn store(&self) -> HeldStore {
        let of_tables = self.tables.iter().flat_map(|(_, files)| &files.0);
        let of_events = self.events.iter().flat_map(|(_, files)| &files.0);
        HeldStore::new(of_tables.chain(of_events).map(|file| &file.held))
    }
}

/// Registers every table; those without files are empty.
pub(crate) fn register(context: &SessionContext, tables: Tables) -> Result<(), QueryError> {
    let url = ObjectStoreUrl::local_filesystem();
    context.register_object_store(url.as_ref(), Arc::new(tables.store()));
    for (doc, files) in tables.tables {
        let table = RecordingTable::new(arrow_schema(doc), files);
        add(context, doc.name, Arc::new(table))?;
    }
    events::register(context, tables.events)
}
