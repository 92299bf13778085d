//! What every format is written by.

use crate::error::QueryError;
use arrow::array::RecordBatch;

/// Writes a result, batch by batch.
pub trait BatchWriter {
    /// Takes the next rows. False says that no more are wanted: they would not be shown.
    ///
    /// # Errors
    /// If they cannot be written.
    fn write(&mut self, batch: &RecordBatch) -> Result<bool, QueryError>;

    /// Writes what is left.
    ///
    /// # Errors
    /// If it cannot be written.
    fn finish(self: Box<Self>) -> Result<(), QueryError>;
}
