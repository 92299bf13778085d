//! A query's answer, kept as the Arrow IPC stream that the engine wrote.

use crate::protocol::End;
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;

/// One query's answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The complete Arrow IPC stream.
    pub arrow: Vec<u8>,
    /// Rows, time, and whether rows were left out.
    pub end: End,
}

impl Answer {
    /// Decodes the rows.
    ///
    /// # Errors
    /// The bytes are no Arrow IPC stream.
    pub fn batches(&self) -> Result<Vec<RecordBatch>, ArrowError> {
        StreamReader::try_new(self.arrow.as_slice(), None)?.collect()
    }
}
