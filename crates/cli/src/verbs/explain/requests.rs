//! The block request that is explained.

use super::longest::{Long, nth};
use anyhow::ensure;
use transect_model::ids::MachineId;
use transect_model::table::{IoRequest, Tables};
use transect_model::time::Span;

impl Long for IoRequest {
    fn stretch(&self) -> (i64, Option<i64>) {
        (self.ts, self.dur)
    }
}

/// The request that is the `number`-th longest of those that begin and end in the range; of the same length,
/// those that were submitted first come first.
pub(super) fn longest(
    tables: &Tables,
    machine: Option<MachineId>,
    number: u64,
    range: Span,
) -> anyhow::Result<&IoRequest> {
    ensure!(
        !tables.io_requests.is_empty(),
        "no block requests in this range: record them with --profile io or explain"
    );
    let is_of = |row: &&IoRequest| machine.is_none_or(|machine| machine == row.machine_id);
    let rows = tables.io_requests.iter().filter(is_of);
    let key = |row: &IoRequest| (row.ts, row.machine_id, row.device, row.sector);
    nth(rows, ("block request", "", number), range, key)
}
