//! What reads the rows of a table.

use crate::collect::Collector;
use crate::error::TimelineError;
use crate::key::{Class, Interner, RawKey};
use arrow::array::RecordBatch;
use std::ops::Range;

/// Reads the rows of one table, which come in order of `ts`.
pub(crate) trait TableReader {
    /// The columns it needs.
    fn columns(&self) -> &'static [&'static str];

    /// Takes rows of a batch.
    fn take(
        &mut self,
        batch: &RecordBatch,
        rows: Range<usize>,
        into: &mut Collector,
    ) -> Result<(), TimelineError>;

    /// There are no more rows; what has not ended goes on until `to`.
    fn end(&mut self, to: i64, into: &mut Collector) {
        let _ = (to, into);
    }
}

/// A key of words that are the same for all rows.
pub(super) fn plain(keys: &mut Interner, class: Class, state: &str) -> RawKey {
    RawKey { class, state: keys.word(state), reason: 0, machine: None, vcpu: None, tid: None }
}
