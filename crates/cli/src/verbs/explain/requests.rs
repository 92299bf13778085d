//! The block request that is explained.

use anyhow::{bail, ensure};
use transect_model::ids::MachineId;
use transect_model::number::counted;
use transect_model::table::{IoRequest, Tables};
use transect_model::time::Span;

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
    let is_whole = |row: &&IoRequest| {
        let end = row.dur.and_then(|dur| row.ts.checked_add(dur));
        row.ts >= range.start.get() && end.is_some_and(|end| end <= range.end.get())
    };
    let is_of = |row: &&IoRequest| machine.is_none_or(|machine| machine == row.machine_id);
    let mut all: Vec<&IoRequest> =
        tables.io_requests.iter().filter(is_whole).filter(is_of).collect();
    all.sort_by_key(|row| {
        (std::cmp::Reverse(row.dur), row.ts, row.machine_id, row.device, row.sector)
    });
    let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
    match all.get(at) {
        Some(row) => Ok(row),
        None => bail!(
            "there is no request {number}: {} begin and end in this range",
            counted(all.len() as u64, "block request")
        ),
    }
}
