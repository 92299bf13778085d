//! Which tables there are: from the folder of a recording's tables to SQL names.
//!
//! **Layout read.** `<table>.parquet`, or any `*.parquet` at any depth below `<table>/`; a folder
//! `machine_id=N` on the way says that all rows of its files are of machine N, which lets files
//! be left out without being opened. Events lie below `events/name=<event>/`.

mod events;
mod files;
mod schema;
mod table;

pub(crate) use schema::arrow_schema;
pub(crate) use table::RecordingTable;

use crate::error::QueryError;
use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use files::Files;
use std::path::Path;
use std::sync::Arc;
use transect_model::table::TABLES;

/// Registers every table; those without files are empty.
pub(crate) fn register(context: &SessionContext, dir: &Path) -> Result<(), QueryError> {
    for doc in TABLES {
        let files = Files::of_table(dir, doc.name)?;
        let table = RecordingTable::new(arrow_schema(doc), files);
        add(context, doc.name, Arc::new(table))?;
    }
    events::register(context, dir)
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
