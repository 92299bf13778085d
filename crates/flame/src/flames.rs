//! The stages of all packets and block requests, grouped, with their stacks.

use crate::frame::frame_from_name;
use crate::points::{Carriers, Stacked};
use crate::samples::Samples;
use crate::stage::{FlameError, StageFlame, StageSums};
use std::collections::{BTreeMap, HashMap};
use transect_model::ids::{BlockDevice, MachineId};
use transect_model::stage::Stage;
use transect_model::table::{
    IoRequest, Machine, Packet, Stack, StackSample, TableDoc, Tables, Thread,
};

/// The tables that [`Flames::gather`] reads.
pub const NEEDS: [TableDoc; 6] = [
    Machine::TABLE,
    Thread::TABLE,
    IoRequest::TABLE,
    Packet::TABLE,
    StackSample::TABLE,
    Stack::TABLE,
];

/// The name of a machine that is not part of the recording.
const OUTSIDE: &str = "outside";

/// The rows that are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// Packets from one machine to another; `None` outside of the recording.
    Packets(Option<MachineId>, Option<MachineId>),
    /// Requests of a machine to a block device.
    Requests(MachineId, BlockDevice),
}

impl GroupKey {
    /// One row.
    pub fn noun(self) -> &'static str {
        match self {
            GroupKey::Packets(..) => "packet",
            GroupKey::Requests(..) => "request",
        }
    }

    /// Is it one of the group's machines?
    pub fn has_machine(self, machine: MachineId) -> bool {
        match self {
            GroupKey::Packets(from, to) => [from, to].contains(&Some(machine)),
            GroupKey::Requests(of, _) => of == machine,
        }
    }
}

/// The stages of a group of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Which rows.
    pub key: GroupKey,
    /// The names of its machines, and the device of requests: `web → db`. It has no character that a terminal obeys.
    pub name: String,
    /// The time of all stages of the rows, ns; `None` if it is no 64-bit number.
    pub total_ns: Option<i64>,
    /// The stages, in the order of the table's columns.
    pub stages: Vec<StageFlame>,
}

impl Group {
    /// The group with its kind: `packets web → db`.
    pub fn title(&self) -> String {
        format!("{}s {}", self.key.noun(), self.name)
    }
}

/// The stages of a recording with their stacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flames {
    /// Packets first, by machines; then requests, by machine and device.
    pub groups: Vec<Group>,
}

impl Flames {
    /// Adds up the stages of the rows of `packets` and `io_requests` that have a length.
    ///
    /// # Errors
    /// The lengths of a stage are negative, or their sum is too large.
    pub fn gather(tables: &Tables) -> Result<Self, FlameError> {
        let (samples, carriers) = (Samples::new(tables), Carriers::new(&tables.machines));
        let mut packets = Stages::default();
        for row in tables.packets.iter().filter(|row| row.dur.is_some()) {
            // The first event is the sender's only if it was sent here.
            let sender = row.send_ts.map(|_| row.machine_id);
            packets.add(GroupKey::Packets(sender, row.to_machine_id), row, &samples, &carriers)?;
        }
        let mut requests = Stages::default();
        for row in tables.io_requests.iter().filter(|row| row.dur.is_some()) {
            requests.add(
                GroupKey::Requests(row.machine_id, row.device),
                row,
                &samples,
                &carriers,
            )?;
        }
        let names = Names(tables.machines.iter().map(|row| (row.machine_id, row)).collect());
        let mut groups = packets.finish::<Packet>(&samples, &names);
        groups.extend(requests.finish::<IoRequest>(&samples, &names));
        Ok(Flames { groups })
    }

    /// Keeps the groups of these kinds and machines.
    pub fn retain_groups(&mut self, is_wanted: impl Fn(GroupKey) -> bool) {
        self.groups.retain(|group| is_wanted(group.key));
    }

    /// Keeps the stages of these names: both events (`issue..kick`), or the first one (`issue`). Groups without any are
    /// removed.
    pub fn retain_stages(&mut self, names: &[String]) {
        for group in &mut self.groups {
            group.stages.retain(|stage| {
                names.iter().any(|name| *name == stage.name || name == stage.begin)
            });
        }
        self.groups.retain(|group| !group.stages.is_empty());
    }
}

/// The sums of one table's stages while rows are added.
#[derive(Default)]
struct Stages(BTreeMap<GroupKey, BTreeMap<(usize, usize), StageSums>>);

impl Stages {
    fn add<R: Stacked>(
        &mut self,
        key: GroupKey,
        row: &R,
        samples: &Samples<'_>,
        carriers: &Carriers,
    ) -> Result<(), FlameError> {
        let group = self.0.entry(key).or_default();
        for Stage { from, to, ts, ns } in row.stages() {
            let event = row.event_at(R::CUTS[from], carriers);
            let stack = event.map(|event| samples.find(event, ts));
            let added = group.entry((from, to)).or_default().add(ns, stack);
            added.ok_or_else(|| FlameError { stage: R::stage_name(from, to) })?;
        }
        Ok(())
    }

    fn finish<R: Stacked>(self, samples: &Samples<'_>, names: &Names<'_>) -> Vec<Group> {
        let groups = self.0.into_iter();
        let groups = groups.map(|(key, stages)| {
            let stages = stages.into_iter().map(|((from, to), sums)| {
                sums.finish(R::stage_name(from, to), R::CUTS[from], samples)
            });
            let stages: Vec<StageFlame> = stages.collect();
            let total_ns =
                stages.iter().try_fold(0_i64, |sum, stage| sum.checked_add(stage.total_ns));
            Group { key, name: names.group(key), total_ns, stages }
        });
        groups.filter(|group| !group.stages.is_empty()).collect()
    }
}

/// The names of machines.
struct Names<'t>(HashMap<MachineId, &'t Machine>);

impl Names<'_> {
    fn machine(&self, id: MachineId) -> String {
        match self.0.get(&id) {
            Some(machine) => frame_from_name(&machine.name),
            None => format!("machine {id}"),
        }
    }

    fn group(&self, key: GroupKey) -> String {
        match key {
            GroupKey::Packets(from, to) => {
                let [from, to] = [from, to]
                    .map(|id| id.map_or_else(|| OUTSIDE.to_owned(), |id| self.machine(id)));
                format!("{from} → {to}")
            }
            GroupKey::Requests(machine, device) => format!("{} {device}", self.machine(machine)),
        }
    }
}
