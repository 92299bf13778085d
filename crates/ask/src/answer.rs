//! A query's answer, kept as the engine wrote it.

use crate::protocol::End;
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;

/// One query's answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The rows in the form of the query.
    pub bytes: Vec<u8>,
    /// Rows, time, and whether rows were left out.
    pub end: End,
}

impl Answer {
    /// Decodes the rows of an Arrow stream, whose lengths it believes: a hostile engine can make it reserve any amount of
    /// memory.
    ///
    /// # Errors
    /// The bytes are no Arrow IPC stream.
    pub fn batches(&self) -> Result<Vec<RecordBatch>, ArrowError> {
        StreamReader::try_new(self.bytes.as_slice(), None)?.collect()
    }
}
