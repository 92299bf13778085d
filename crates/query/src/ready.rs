//! Futures that are ready at once.

use datafusion::error::{DataFusionError, Result as DfResult};
use futures::FutureExt;
use std::future::Future;

/// Waits for what only looks into memory and so never waits.
pub(crate) fn block_on_memory<T>(work: impl Future<Output = DfResult<T>>) -> DfResult<T> {
    work.now_or_never()
        .unwrap_or_else(|| Err(DataFusionError::Internal("registration blocked".to_owned())))
}
