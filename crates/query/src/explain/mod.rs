//! The table functions `critical_path`, `explanation`, `blame` and `findings`: what `transect explain` says, as rows.
//!
//! ```text
//! call ([`call`]) ─▶ scans of the tables that it needs, cut to its range ([`inputs`]) ─▶ ExplainExec ([`exec`])
//!     ─▶ rows of the model ([`gather`]) ─▶ transect_explain ([`answer`]) ─▶ record batches ([`batch`])
//! ```
//! The rows of the range are in memory while the answer is made, accounted to the query's pool. The tables are read through the
//! catalog, so that a confined process can explain, too.

mod answer;
mod batch;
mod call;
mod exec;
mod gather;
mod inputs;

use call::{Asked, Call};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use inputs::ExplainedTable;
use std::sync::Arc;

/// Makes the functions known to SQL.
pub(crate) fn register(context: &SessionContext) {
    for asked in Asked::ALL {
        context.register_udtf(asked.table().name, Arc::new(Explain(asked)));
    }
}

#[derive(Debug)]
struct Explain(Asked);

impl TableFunctionImpl for Explain {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> Result<Arc<dyn TableProvider>> {
        let call = Call::parse(self.0, args.exprs())?;
        Ok(Arc::new(ExplainedTable::new(call, args.session())?))
    }
}
