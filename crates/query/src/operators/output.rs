//! What a join gives out: which columns, from where, and to whom.

use super::cursor::OPEN;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

/// Where a column of the output comes from; numbers are columns of the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Left(usize),
    Right(usize),
    /// Start of the overlap, ns.
    OverlapTs,
    /// Length of the overlap, ns; null if neither interval's end is known.
    OverlapDur,
}

/// The columns of the output in order.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) schema: SchemaRef,
    pub(crate) columns: Vec<From>,
}

/// Overlaps, column by column.
#[derive(Debug, Default)]
pub(crate) struct Overlaps {
    pub(crate) ts: Vec<i64>,
    pub(crate) end: Vec<i64>,
    pub(crate) left: Vec<(usize, usize)>,
    pub(crate) right: Vec<(usize, usize)>,
}

impl Recipe {
    /// A batch of all the left's rows beside the right's that `right` takes.
    pub(crate) fn left_and(
        &self,
        left: &RecordBatch,
        right: impl Fn(usize) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        self.batch(left.num_rows(), |from| match from {
            From::Left(column) => Ok(left.column(column).clone()),
            From::Right(column) => right(column),
            From::OverlapTs | From::OverlapDur => {
                Err(DataFusionError::Internal("an as-of join has no overlap".to_owned()))
            }
        })
    }

    /// A batch of overlaps.
    pub(crate) fn overlaps(
        &self,
        rows: &Overlaps,
        left: impl Fn(usize, &[(usize, usize)]) -> Result<ArrayRef>,
        right: impl Fn(usize, &[(usize, usize)]) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let dur = |(ts, end): (&i64, &i64)| (*end != OPEN).then(|| end - ts);
        self.batch(rows.ts.len(), |from| match from {
            From::Left(column) => left(column, &rows.left),
            From::Right(column) => right(column, &rows.right),
            From::OverlapTs => Ok(Arc::new(Int64Array::from(rows.ts.clone()))),
            From::OverlapDur => {
                Ok(Arc::new(rows.ts.iter().zip(&rows.end).map(dur).collect::<Int64Array>()))
            }
        })
    }

    fn batch(
        &self,
        rows: usize,
        column: impl FnMut(From) -> Result<ArrayRef>,
    ) -> Result<RecordBatch> {
        let columns = self.columns.iter().copied().map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

/// Where the batches go, and the account of the memory that makes them.
pub(crate) struct Output {
    pub(crate) to: Sender<Result<RecordBatch>>,
    pub(crate) memory: MemoryReservation,
}

impl Output {
    /// Hands a batch on; false once nobody reads any more.
    pub(crate) async fn send(&mut self, batch: RecordBatch) -> bool {
        self.to.send(Ok(batch)).await.is_ok()
    }

    /// States what the join holds now; an error if the query's memory does not allow it.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<()> {
        self.memory.try_resize(bytes)
    }
}
