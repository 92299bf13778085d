//! Packets by stage.

use super::{names::Names, selection::Selection, ways::Ways};
use crate::lines::{PacketLine, PacketStageLine};
use std::collections::BTreeMap;
use transect_model::ids::MachineId;
use transect_model::table::Packet;

/// The sender and the receiver; none outside of the recording.
type Key = (Option<MachineId>, Option<MachineId>);

#[derive(Default)]
struct Group {
    ways: Ways<Packet>,
    bytes: u64,
}

/// The packets from each machine to each other one so far.
#[derive(Default)]
pub(crate) struct PacketSums {
    groups: BTreeMap<Key, Group>,
}

impl PacketSums {
    /// Adds a packet.
    pub(crate) fn packet(&mut self, row: &Packet) {
        // Its first event is the sender's only if it was sent here.
        let sender = row.send_ts.map(|_| row.machine_id);
        let group = self.groups.entry((sender, row.to_machine_id)).or_default();
        group.ways.add(row, row.dur, &row.missing, row.evidence);
        group.bytes = group.bytes.saturating_add(row.bytes.unwrap_or(0));
    }

    /// One line per sender and receiver, and one for each stage of their packets.
    pub(crate) fn lines(
        self,
        names: &Names<'_>,
        selection: &Selection,
    ) -> (Vec<PacketLine>, Vec<PacketStageLine>) {
        let (mut lines, mut stages) = (Vec::new(), Vec::new());
        for ((machine_id, to_machine_id), Group { ways, bytes }) in self.groups {
            if !selection.any_of([machine_id, to_machine_id]) {
                continue;
            }
            let [machine, to_machine] =
                [machine_id, to_machine_id].map(|id| id.map(|id| names.machine(id)));
            let (count, unfinished) = (ways.count(), ways.unfinished());
            let (way, of) = ways.sums();
            stages.extend(of.into_iter().map(|sums| PacketStageLine {
                machine_id,
                machine: machine.clone(),
                to_machine_id,
                to_machine: to_machine.clone(),
                sums,
            }));
            lines.push(PacketLine {
                machine_id,
                machine,
                to_machine_id,
                to_machine,
                count,
                unfinished,
                bytes,
                way,
            });
        }
        (lines, stages)
    }
}
