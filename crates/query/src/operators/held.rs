//! Rows that later rows may still need, kept as the batches they came in.
//!
//! A row is named by a [`RowRef`]; taking many rows at once is one `interleave` per column. When
//! most of what is held is no longer needed, [`Held::compact`] copies the rest together, so that
//! memory follows the rows in use (open intervals, last row per key) and not the rows read.

use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;

/// A row of a held batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowRef {
    pub(crate) batch: u32,
    pub(crate) row: u32,
}

impl RowRef {
    /// The row all of whose columns are null.
    pub(crate) const NULL: RowRef = RowRef { batch: 0, row: 0 };
}

/// Batches whose rows may be needed again.
#[derive(Debug)]
pub(crate) struct Held {
    /// The first is the one row of nulls.
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

/// Rows held before it is worth looking for ones that nobody needs.
const COMPACT_ROWS: usize = 1 << 18;
/// The same for batches, for inputs that come in small ones.
const COMPACT_BATCHES: usize = 256;

impl Held {
    pub(crate) fn new(schema: &SchemaRef) -> Result<Self> {
        let nulls = schema.fields().iter().map(|f| new_null_array(f.data_type(), 1)).collect();
        let fields: Vec<_> =
            schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
        let schema = std::sync::Arc::new(arrow::datatypes::Schema::new(fields));
        let null = RecordBatch::try_new_with_options(
            schema,
            nulls,
            &arrow::array::RecordBatchOptions::new().with_row_count(Some(1)),
        )?;
        Ok(Self { batches: vec![null], rows: 0, bytes: 0 })
    }

    /// Keeps a batch and says what its rows' [`RowRef::batch`] is.
    pub(crate) fn push(&mut self, batch: RecordBatch) -> u32 {
        self.rows += batch.num_rows();
        self.bytes += batch.get_array_memory_size();
        self.batches.push(batch);
        u32::try_from(self.batches.len() - 1).unwrap_or(u32::MAX)
    }

    /// Memory held, bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// The values of one column for the rows named.
    pub(crate) fn take(&self, column: usize, rows: &[(usize, usize)]) -> Result<ArrayRef> {
        let arrays: Vec<_> = self.batches.iter().map(|b| b.column(column).as_ref()).collect();
        Ok(interleave(&arrays, rows)?)
    }

    /// Is so little of what is held still needed that copying it is worth while?
    pub(crate) fn wants_compaction(&self, needed: usize) -> bool {
        let is_much = self.rows > COMPACT_ROWS || self.batches.len() > COMPACT_BATCHES;
        is_much && self.rows > 4 * needed
    }

    /// Copies the rows named into one batch and forgets all others. The rows are then those of
    /// batch 1, in the order given, which the caller notes in what it keeps.
    pub(crate) fn compact(&mut self, needed: &[(usize, usize)]) -> Result<()> {
        let Some(null) = self.batches.first().cloned() else { return Ok(()) };
        let columns =
            (0..null.num_columns()).map(|c| self.take(c, needed)).collect::<Result<Vec<_>>>()?;
        let kept = RecordBatch::try_new_with_options(
            null.schema(),
            columns,
            &arrow::array::RecordBatchOptions::new().with_row_count(Some(needed.len())),
        )?;
        self.rows = kept.num_rows();
        self.bytes = kept.get_array_memory_size();
        self.batches = vec![null, kept];
        Ok(())
    }
}

/// The form `interleave` takes.
pub(crate) fn index(row: RowRef) -> (usize, usize) {
    (row.batch as usize, row.row as usize)
}
