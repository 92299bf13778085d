//! Names of machines, threads and vCPUs, looked up once per report.

use std::collections::HashMap;
use transect_model::ids::{MachineId, MachineKind, Tid, VcpuId};
use transect_model::table::{Machine, Tables, Thread};

/// Looks up who is who.
pub(crate) struct Names<'a> {
    machines: HashMap<MachineId, &'a Machine>,
    threads: HashMap<(MachineId, Tid), &'a Thread>,
    vcpu_of_thread: HashMap<(MachineId, Tid), (MachineId, VcpuId)>,
    thread_of_vcpu: HashMap<(MachineId, VcpuId), Tid>,
}

impl<'a> Names<'a> {
    /// Reads machines, threads and vCPUs.
    pub(crate) fn new(tables: &'a Tables) -> Self {
        let machines: HashMap<_, _> = tables.machines.iter().map(|m| (m.machine_id, m)).collect();
        let mut vcpu_of_thread = HashMap::new();
        let mut thread_of_vcpu = HashMap::new();
        for vcpu in &tables.vcpus {
            let host = machines.get(&vcpu.machine_id).and_then(|m| m.parent_id);
            if let (Some(host), Some(tid)) = (host, vcpu.vmm_tid) {
                vcpu_of_thread.insert((host, tid), (vcpu.machine_id, vcpu.vcpu));
                thread_of_vcpu.insert((vcpu.machine_id, vcpu.vcpu), tid);
            }
        }
        let threads = tables.threads.iter().map(|t| ((t.machine_id, t.tid), t)).collect();
        Names { machines, threads, vcpu_of_thread, thread_of_vcpu }
    }

    /// The machine's name, or its number if the table does not list it.
    pub(crate) fn machine(&self, id: MachineId) -> String {
        self.machines.get(&id).map_or_else(|| format!("machine {id}"), |m| m.name.clone())
    }

    /// The machine this one runs on.
    pub(crate) fn host_of(&self, id: MachineId) -> Option<MachineId> {
        self.machines.get(&id).and_then(|m| m.parent_id)
    }

    /// Its number as a domain of Xen.
    pub(crate) fn domid(&self, id: MachineId) -> Option<u32> {
        self.machines.get(&id).and_then(|m| m.domid)
    }

    /// Does it run on another machine?
    pub(crate) fn is_guest(&self, id: MachineId) -> bool {
        self.machines.get(&id).is_some_and(|m| m.kind == MachineKind::Guest)
    }

    /// What is known about a thread.
    pub(crate) fn thread(&self, machine: MachineId, tid: Tid) -> Option<&'a Thread> {
        self.threads.get(&(machine, tid)).copied()
    }

    /// A thread's name, or `tid N` if it has none.
    pub(crate) fn thread_name(&self, machine: MachineId, tid: Tid) -> String {
        match self.thread(machine, tid) {
            Some(thread) if !thread.name.is_empty() => thread.name.clone(),
            _ => format!("tid {tid}"),
        }
    }

    /// The VM and vCPU a thread of `machine` runs, if it is a vCPU thread.
    pub(crate) fn vcpu_of(&self, machine: MachineId, tid: Tid) -> Option<(MachineId, VcpuId)> {
        self.vcpu_of_thread.get(&(machine, tid)).copied()
    }

    /// The host thread that runs a vCPU.
    pub(crate) fn vmm_tid(&self, machine: MachineId, vcpu: VcpuId) -> Option<Tid> {
        self.thread_of_vcpu.get(&(machine, vcpu)).copied()
    }
}
