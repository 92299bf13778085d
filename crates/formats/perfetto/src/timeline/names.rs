//! Who is who, for slice and track names.

use std::collections::HashMap;
use transect_model::ids::{MachineId, Tid, VcpuId};
use transect_model::table::Tables;

/// Names of machines and threads.
pub(crate) struct Names<'a> {
    machines: HashMap<MachineId, &'a str>,
    parents: HashMap<MachineId, MachineId>,
    threads: HashMap<(MachineId, Tid), &'a str>,
    vcpus: HashMap<(MachineId, Tid), (MachineId, VcpuId)>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(tables: &'a Tables) -> Self {
        let parents: HashMap<_, _> =
            tables.machines.iter().filter_map(|m| Some((m.machine_id, m.parent_id?))).collect();
        let vcpus = tables.vcpus.iter().filter_map(|v| {
            let host = *parents.get(&v.machine_id)?;
            Some(((host, v.vmm_tid?), (v.machine_id, v.vcpu)))
        });
        Names {
            machines: tables.machines.iter().map(|m| (m.machine_id, m.name.as_str())).collect(),
            threads: tables
                .threads
                .iter()
                .map(|t| ((t.machine_id, t.tid), t.name.as_str()))
                .collect(),
            vcpus: vcpus.collect(),
            parents,
        }
    }

    pub(crate) fn machine(&self, id: MachineId) -> String {
        self.machines.get(&id).map_or_else(|| format!("machine {id}"), |name| (*name).to_owned())
    }

    pub(crate) fn thread(&self, machine: MachineId, tid: Tid) -> String {
        match self.threads.get(&(machine, tid)) {
            Some(name) if !name.is_empty() => (*name).to_owned(),
            _ => format!("tid {tid}"),
        }
    }

    /// A thread as the host sees it: the vCPU it runs, or its name.
    pub(crate) fn host_thread(&self, machine: MachineId, tid: Tid) -> String {
        match self.vcpus.get(&(machine, tid)) {
            Some((vm, vcpu)) => format!("{} vcpu{vcpu}", self.machine(*vm)),
            None => self.thread(machine, tid),
        }
    }

    /// The machine this one runs on.
    pub(crate) fn parent(&self, machine: MachineId) -> Option<MachineId> {
        self.parents.get(&machine).copied()
    }
}
