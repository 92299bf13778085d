//! A table becomes known to SQL.

use crate::error::QueryError;
use datafusion::catalog::TableProvider;
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use std::sync::Arc;

pub(super) fn add(
    context: &SessionContext,
    name: &str,
    table: Arc<dyn TableProvider>,
) -> Result<(), QueryError> {
    let registered = context.register_table(name, table);
    registered.map(drop).map_err(|error| internal(&error))
}

pub(super) fn internal(error: &DataFusionError) -> QueryError {
    QueryError::Run { message: error.to_string() }
}
