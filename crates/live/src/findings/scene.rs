//! The rows of a window by what they are about.

use crate::{
    groups::{ContainerWindow, PressureWindow},
    snapshot::{Antagonist, Snapshot, ThreadWindow},
};
use std::collections::HashMap;
use transect_explain::{Party, ThreadId, detect::Range, words::names::Names};
use transect_model::{
    ids::{MachineId, Tid, VcpuId},
    table::Machine,
};

pub(super) const HOST: MachineId = MachineId(0);

/// A stretch of time, in ns.
pub(super) fn range(ts: i64, dur: i64) -> Range {
    Range { from: ts, until: ts.saturating_add(dur), second: Some(1_000_000_000) }
}

pub(super) struct Scene<'a> {
    pub(super) window: &'a Snapshot,
    machines: HashMap<MachineId, &'a Machine>,
    threads: HashMap<Tid, &'a ThreadWindow>,
    /// Of antagonists that have no row of their own.
    others: HashMap<Tid, &'a str>,
    containers: HashMap<&'a str, &'a ContainerWindow>,
    pressure: HashMap<&'a str, &'a PressureWindow>,
}

impl<'a> Scene<'a> {
    pub(super) fn of(window: &'a Snapshot) -> Self {
        let pressure = window.pressure.iter();
        Scene {
            window,
            machines: window.machines.iter().map(|row| (row.machine_id, row)).collect(),
            threads: window.threads.iter().map(|row| (row.tid, row)).collect(),
            others: window.antagonists.iter().map(|r| (r.by_tid, r.by_name.as_str())).collect(),
            containers: window
                .containers
                .iter()
                .map(|(row, _)| (row.cgroup.as_str(), row))
                .collect(),
            pressure: pressure.filter_map(|row| Some((row.cgroup.as_deref()?, row))).collect(),
        }
    }

    /// A vCPU, a control group below the root, else the thread.
    pub(super) fn subject(&self, tid: Tid) -> Party {
        let Some(row) = self.threads.get(&tid) else {
            return Party::Thread(ThreadId { machine: HOST, tid });
        };
        match (row.vm_machine_id, row.vcpu, &row.cgroup) {
            (Some(machine), Some(vcpu), _) => Party::Vcpu(machine, vcpu),
            (_, _, Some(path)) if path.len() > 1 => Party::Group(HOST, path.clone()),
            _ => Party::Thread(ThreadId { machine: HOST, tid }),
        }
    }

    /// Who had the CPU; none if nobody had it.
    pub(super) fn antagonist(&self, row: &Antagonist) -> Option<Party> {
        match (row.by_machine_id, row.by_vcpu, row.by_tid) {
            (_, _, Tid::IDLE) => None,
            (machine, Some(vcpu), _) if machine != HOST => Some(Party::Vcpu(machine, vcpu)),
            // Xen's records have the domain.
            (machine, None, Tid(..0)) => Some(Party::Machine(machine)),
            (_, _, tid) => Some(self.subject(tid)),
        }
    }

    /// What the group and those above it were short of, from the group up.
    pub(super) fn pressures_above<'s>(
        &'s self,
        group: &'s str,
    ) -> impl Iterator<Item = &'a PressureWindow> + 's {
        above(group).filter_map(move |group| self.pressure.get(group).copied())
    }
}

/// A control group, then those above it.
fn above(group: &str) -> impl Iterator<Item = &str> {
    std::iter::once(group).chain(group.rmatch_indices('/').map(move |(at, _)| &group[..at]))
}

impl Names for Scene<'_> {
    fn machine(&self, id: MachineId) -> Option<&Machine> {
        self.machines.get(&id).copied()
    }

    fn thread_name(&self, id: ThreadId) -> &str {
        let known = self.threads.get(&id.tid).map(|row| row.name.as_str());
        known.or_else(|| self.others.get(&id.tid).copied()).unwrap_or_default()
    }

    fn vcpu_of_thread(&self, id: ThreadId) -> Option<(MachineId, VcpuId)> {
        let row = self.threads.get(&id.tid)?;
        Some((row.vm_machine_id?, row.vcpu?))
    }

    /// A container has the name that its manager gave it; groups in it stand behind that.
    fn group_name(&self, _machine: MachineId, path: &str) -> String {
        let container = above(path).find_map(|group| {
            let row = self.containers.get(group).filter(|row| row.is_named())?;
            Some((row.full_name(), &path[group.len()..]))
        });
        container.map_or_else(|| path.to_owned(), |(name, below)| format!("{name}{below}"))
    }
}
