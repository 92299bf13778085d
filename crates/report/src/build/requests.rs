//! Block requests by stage.

use super::{names::Names, selection::Selection, ways::Ways};
use crate::lines::{RequestLine, StageLine};
use std::collections::BTreeMap;
use transect_model::ids::{BlockDevice, MachineId};
use transect_model::table::IoRequest;

type Key = (MachineId, BlockDevice, &'static str);

/// The requests to each device so far.
#[derive(Default)]
pub(crate) struct RequestSums {
    groups: BTreeMap<Key, Ways<IoRequest>>,
}

impl RequestSums {
    /// Adds a request.
    pub(crate) fn request(&mut self, row: &IoRequest) {
        let group = self.groups.entry((row.machine_id, row.device, row.op.as_str())).or_default();
        group.add(row, row.dur, &row.missing, row.evidence);
    }

    /// One line per machine, device and operation, and one for each stage of their requests.
    pub(crate) fn lines(
        self,
        names: &Names<'_>,
        selection: &Selection,
    ) -> (Vec<RequestLine>, Vec<StageLine>) {
        let (mut lines, mut stages) = (Vec::new(), Vec::new());
        for ((machine_id, device, op), group) in self.groups {
            if !selection.machine(machine_id) {
                continue;
            }
            let (machine, device) = (names.machine(machine_id), device.to_string());
            let (count, unfinished) = (group.count(), group.unfinished());
            let (way, of) = group.sums();
            stages.extend(of.into_iter().map(|sums| StageLine {
                machine_id,
                machine: machine.clone(),
                device: device.clone(),
                op: op.to_owned(),
                sums,
            }));
            let op = op.to_owned();
            lines.push(RequestLine { machine_id, machine, device, op, count, unfinished, way });
        }
        (lines, stages)
    }
}
