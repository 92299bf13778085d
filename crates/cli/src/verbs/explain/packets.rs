//! The packet that is explained.

use super::longest::{Long, nth};
use anyhow::ensure;
use transect_model::ids::MachineId;
use transect_model::table::{Packet, Tables};
use transect_model::time::Span;

impl Long for Packet {
    fn stretch(&self) -> (i64, Option<i64>) {
        (self.ts, self.dur)
    }
}

/// The packet that is the `number`-th longest of those that begin and end in the range and woke a thread; of the same
/// length, those that were sent first come first.
pub(super) fn longest(
    tables: &Tables,
    machine: Option<MachineId>,
    number: u64,
    range: Span,
) -> anyhow::Result<&Packet> {
    ensure!(
        !tables.packets.is_empty(),
        "no packets with numbers in this range: record them with --profile explain"
    );
    let is_to = |row: &&Packet| {
        row.wake_tid.is_some() && machine.is_none_or(|machine| row.to_machine_id == Some(machine))
    };
    let rows = tables.packets.iter().filter(is_to);
    let key = |row: &Packet| (row.ts, row.machine_id, row.flow, row.seq);
    nth(rows, ("packet", " and woke a thread", number), range, key)
}
