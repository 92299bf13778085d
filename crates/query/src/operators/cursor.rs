//! One input of a merge: a stream of batches sorted by `ts`, read row by row.

use super::keys::Interner;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;

/// Which columns of an input mean what.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    /// Start, ns of trace time.
    pub(crate) ts: usize,
    /// Length, ns, where intervals are asked for.
    pub(crate) dur: Option<usize>,
    /// What must be equal.
    pub(crate) keys: Vec<usize>,
}

/// An input and the row it has come to.
pub(crate) struct Cursor {
    stream: SendableRecordBatchStream,
    columns: Columns,
    /// `left` or `right`, for errors.
    side: &'static str,
    latest: i64,
    pub(crate) batch: Loaded,
    pub(crate) at: usize,
    pub(crate) done: bool,
}

/// A batch, taken apart as the merge needs it.
pub(crate) struct Loaded {
    pub(crate) rows: RecordBatch,
    pub(crate) ts: Int64Array,
    /// Exclusive end of each interval, [`OPEN`] where `dur` is null; empty without `dur`.
    pub(crate) end: Vec<i64>,
    pub(crate) slots: Vec<u32>,
}

/// The end of an interval that the recording does not show the end of.
pub(crate) const OPEN: i64 = i64::MAX;

impl Cursor {
    pub(crate) fn new(
        stream: SendableRecordBatchStream,
        columns: Columns,
        side: &'static str,
    ) -> Self {
        let batch = Loaded {
            rows: RecordBatch::new_empty(stream.schema()),
            ts: Int64Array::from(Vec::<i64>::new()),
            end: Vec::new(),
            slots: Vec::new(),
        };
        Self { stream, columns, side, latest: i64::MIN, batch, at: 0, done: false }
    }

    /// Has the batch been read to its end?
    pub(crate) fn is_dry(&self) -> bool {
        self.at >= self.batch.ts.len()
    }

    /// Loads the next batch that has rows; false at the end of the input.
    pub(crate) async fn load(&mut self, keys: &mut Interner) -> Result<bool> {
        while let Some(rows) = self.stream.next().await {
            let rows = rows?;
            if rows.num_rows() > 0 {
                self.batch = self.take_apart(rows, keys)?;
                self.at = 0;
                return Ok(true);
            }
        }
        self.done = true;
        Ok(false)
    }

    fn take_apart(&mut self, rows: RecordBatch, keys: &mut Interner) -> Result<Loaded> {
        let ts = int64(rows.column(self.columns.ts))?;
        self.check_order(&ts)?;
        let end = match self.columns.dur {
            Some(dur) => ends(&ts, &int64(rows.column(dur))?, self.side)?,
            None => Vec::new(),
        };
        let columns: Vec<ArrayRef> =
            self.columns.keys.iter().map(|c| rows.column(*c).clone()).collect();
        let slots = keys.slots(&columns, rows.num_rows())?;
        Ok(Loaded { rows, ts, end, slots })
    }

    /// A plan that claims an order it has not would give wrong rows, silently.
    fn check_order(&mut self, ts: &Int64Array) -> Result<()> {
        let values = ts.values();
        let sorted = ts.null_count() == 0
            && values.is_sorted()
            && values.first().is_none_or(|first| *first >= self.latest);
        if !sorted {
            let side = self.side;
            return Err(DataFusionError::Execution(format!(
                "the {side} input is not sorted by ts, although its files declare that order: remove \
                 the recording's tables/ folder to rebuild the tables"
            )));
        }
        if let Some(last) = values.last() {
            self.latest = *last;
        }
        Ok(())
    }
}

fn int64(column: &ArrayRef) -> Result<Int64Array> {
    Ok(cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
}

fn ends(ts: &Int64Array, dur: &Int64Array, side: &str) -> Result<Vec<i64>> {
    let end = |(ts, dur): (Option<i64>, Option<i64>)| match (ts, dur) {
        (Some(ts), Some(dur)) if dur >= 0 => ts.checked_add(dur).ok_or(dur),
        (_, None) => Ok(OPEN),
        (_, Some(dur)) => Err(dur),
    };
    ts.iter().zip(dur.iter()).map(end).collect::<Result<_, i64>>().map_err(|dur| {
        DataFusionError::Execution(format!("the {side} input has an invalid dur of {dur} ns"))
    })
}
