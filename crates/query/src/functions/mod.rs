//! Functions that SQL lacks: buckets of time, lengths for people, and quantiles.

mod bucket;
mod ns_text;
mod quantile;

use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;

/// Makes the functions known to SQL.
pub(crate) fn register(context: &SessionContext) {
    context.register_udf(ScalarUDF::from(bucket::Bucket::new()));
    context.register_udf(ScalarUDF::from(ns_text::NsText::new()));
    quantile::register(context);
}
