//! Worlds without an end: what is looked at while it goes on, what is forgotten, and what is learned
//! later than at the beginning.

use super::World;
use crate::{
    states::{occupant::Occupant, thread::Place},
    topology::{MachineInfo, ThreadInfo, VcpuInfo},
    wanted::Wanted,
};
use transect_model::{
    event::Comm,
    ids::{CpuId, MachineId},
    table::TableSink,
};

impl World {
    /// Emits what is open at `t`, as if it ended there, and goes on unchanged.
    pub(crate) fn peek(&self, t: i64, sink: &mut dyn TableSink) {
        let mut copy = self.clone();
        copy.wants = Wanted::by(sink);
        copy.finish(t, sink);
    }

    /// Forgets what was before `edge`, where a window begins.
    pub(crate) fn forget(&mut self, edge: i64) {
        self.windows.forget(edge);
        for machine in &mut self.machines {
            let slot = |occupant| match occupant {
                Occupant::Thread { slot, .. } => slot,
                _ => None,
            };
            let kept: Vec<usize> =
                machine.cpus.iter().filter_map(|cpu| slot(cpu.occupant)).collect();
            let known = &mut machine.known;
            machine.threads.forget_gone(edge, &kept, |tid| drop(known.remove(&tid.0)));
        }
    }

    /// Adds a machine that was not known before, with its vCPUs; its number is the next one.
    pub(crate) fn learn_machine(
        &mut self,
        mut info: MachineInfo,
        vcpus: &[VcpuInfo],
        sink: &mut dyn TableSink,
    ) -> Option<MachineId> {
        let id = MachineId(u32::try_from(self.machines.len()).ok()?);
        info.id = id;
        self.add_machine(info, None);
        self.learn_vcpus(id, vcpus, sink);
        Some(id)
    }

    /// Adds a machine's vCPUs that are not known yet.
    pub(crate) fn learn_vcpus(
        &mut self,
        id: MachineId,
        vcpus: &[VcpuInfo],
        sink: &mut dyn TableSink,
    ) {
        for vcpu in vcpus {
            let known = self.vcpus.iter().position(|v| v.machine == id && v.id == vcpu.vcpu);
            if known.is_none() {
                let guest_cpu = CpuId(vcpu.vcpu.0);
                self.add_vcpu(id, vcpu.vcpu, vcpu.vmm_tid, guest_cpu, sink);
            }
        }
    }

    /// Takes what is known from outside of a thread, also of one that was seen before.
    pub(crate) fn learn_thread(&mut self, told: &ThreadInfo) {
        let m = told.machine.0 as usize;
        if m >= self.machines.len() {
            return;
        }
        let Some(slot) = self.machines[m].threads.find(told.tid) else {
            self.machines[m].known.insert(told.tid.0, told.clone());
            return;
        };
        let id = self.machines[m].id;
        let cgroup = told.cgroup.as_deref().map(|name| self.windows.cgroup(id, name));
        let vm = self.vm_of_thread(m, told.pid, &Comm::new(told.name.as_bytes()));
        let thread = self.machines[m].threads.get_mut(slot);
        if thread.place == Place::Gone {
            return;
        }
        if thread.comm.as_bytes().is_empty() {
            thread.comm = Comm::new(told.name.as_bytes());
        }
        thread.pid = told.pid.or(thread.pid);
        if cgroup.is_some() {
            thread.cgroup = cgroup;
            thread.cgroup_name.clone_from(&told.cgroup);
        }
        thread.vm = thread.vm.or(vm);
        if let Some(vcpu) = thread.vcpu {
            let cgroup = thread.cgroup;
            self.windows.vcpu_in_cgroup(vcpu, cgroup);
        }
    }
}
