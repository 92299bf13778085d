//! Functions that SQL lacks: buckets of time, lengths for people, quantiles, and wall-clock time.

mod bucket;
mod ns_text;
mod quantile;
mod wall;

use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

/// Makes the functions known to SQL.
pub(crate) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(bucket::Bucket::new()));
    context.register_udf(ScalarUDF::from(ns_text::NsText::new(false)));
    quantile::register(context);
}

/// Replaces the function that prints lengths of time by one that prints ticks.
pub(crate) fn register_ticks(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(ns_text::NsText::new(true)));
}

/// Does a text of SQL call a function whose result depends on the recording's unit of time?
pub(crate) fn depends_on_unit(sql: &str) -> bool {
    sql.to_ascii_lowercase().contains(ns_text::NAME)
}

/// Makes the functions known that need the recording's own tables, which are there.
pub(crate) async fn register_for_tables(context: &SessionContext) -> datafusion::error::Result<()> {
    wall::register(context).await
}
