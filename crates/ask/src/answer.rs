//! An answer as it came: an Arrow IPC stream.

use crate::protocol::End;
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;

/// One query's answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// An Arrow IPC stream, whole.
    pub arrow: Vec<u8>,
    /// How it ended.
    pub end: End,
}

impl Answer {
    /// Its rows.
    ///
    /// # Errors
    /// The engine's stream is none.
    pub fn batches(&self) -> Result<Vec<RecordBatch>, ArrowError> {
        StreamReader::try_new(self.arrow.as_slice(), None)?.collect()
    }
}
