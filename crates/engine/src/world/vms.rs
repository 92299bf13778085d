//! VMs and vCPUs' threads that nothing but the trace names; how they are told apart is in `infer.rs`
//! of the crate.

use super::World;
use crate::{
    infer::{self, Found},
    topology::MachineInfo,
};
use transect_model::{
    ids::{CpuId, MachineId, Tid, VcpuId},
    table::TableSink,
};

/// VMs inferred at most.
const MAX_MACHINES: usize = 4096;

impl World {
    /// The vCPU that thread `tid` runs, inferring it if nothing has named it before.
    pub(crate) fn infer_vcpu(
        &mut self,
        m: usize,
        tid: Tid,
        vcpu: VcpuId,
        sink: &mut dyn TableSink,
    ) -> Option<usize> {
        let host = self.machines[m].id;
        let slot = self.slot(m, tid)?;
        let pid = self.machines[m].threads.get(slot).pid;
        let known_vm = pid.and_then(|pid| {
            self.machines
                .iter()
                .find(|g| g.info.parent == Some(host) && g.info.vmm_pid == Some(pid))
                .map(|g| g.id)
        });
        let vm = known_vm
            .or_else(|| self.vm_without_thread(host, vcpu))
            .or_else(|| infer::vm_of(&self.found, host, vcpu, tid, pid))
            .or_else(|| self.infer_machine(host, tid, pid))?;
        self.found.push(Found { vm, host, vcpu, tid, pid });
        self.notes.inferred_vcpu(&self.machines[vm.0 as usize].info.name, vcpu, tid);
        if let Some(index) = self.vcpus.iter().position(|v| v.machine == vm && v.id == vcpu) {
            // The vCPU was known without its thread, or has another thread now (a VM was restarted).
            if let Some(old) = self.vcpus[index].vmm_tid.replace(tid)
                && let Some(old) = self.machines[m].threads.find(old)
            {
                self.machines[m].threads.get_mut(old).vcpu = None;
            }
            self.unqueue(m, index, self.vcpus[index].place);
            self.tie(m, slot, index, vm, sink);
            return Some(index);
        }
        Some(self.add_vcpu(vm, vcpu, Some(tid), CpuId(vcpu.0), sink))
    }

    /// The only VM of this host that is known to have such a vCPU, but not by which thread.
    fn vm_without_thread(&self, host: MachineId, vcpu: VcpuId) -> Option<MachineId> {
        let mut candidates = self.vcpus.iter().filter(|v| {
            let parent = self.machines[v.machine.0 as usize].info.parent;
            v.vmm_tid.is_none() && v.id == vcpu && parent == Some(host)
        });
        let only = candidates.next()?.machine;
        candidates.next().is_none().then_some(only)
    }

    fn infer_machine(&mut self, host: MachineId, tid: Tid, pid: Option<Tid>) -> Option<MachineId> {
        if self.machines.len() >= MAX_MACHINES {
            return None;
        }
        let id = MachineId(u32::try_from(self.machines.len()).ok()?);
        let name = format!("vm-{}", pid.unwrap_or(tid));
        let info = MachineInfo { vmm_pid: pid, ..MachineInfo::guest(id, host, name) };
        self.add_machine(info, None);
        Some(id)
    }
}
