//! Who is who: machines, which host thread runs which vCPU, and names known beforehand.
//!
//! The topology comes from the recording's manifest, from a trace.dat's GUEST option, or is empty;
//! then vCPUs are inferred from `kvm_entry` (`infer.rs`).

use serde::{Deserialize, Serialize};
use transect_model::{
    ids::{CpuId, MachineId, MachineKind, Tid, VcpuId},
    setting::{CgroupSettings, ThreadSettings},
    stack::Frame,
    table::{Cgroup, Machine, Stack},
};

/// One machine as the source of the recording knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineInfo {
    /// Its number; dense from 0, parents before children.
    pub id: MachineId,
    /// The machine it runs on; none for a host.
    pub parent: Option<MachineId>,
    /// What it is.
    pub kind: MachineKind,
    /// Its name.
    pub name: String,
    /// Process of its VMM on the parent.
    pub vmm_pid: Option<Tid>,
    /// Control group of the VMM on the parent.
    pub cgroup: Option<String>,
    /// Its domain's number under Xen.
    pub domid: Option<u32>,
    /// The clock its events are stamped with; none if it was seen from outside only.
    pub clock: Option<String>,
}

impl MachineInfo {
    /// The machine at the root of a recording.
    pub fn host(id: MachineId, name: impl Into<String>) -> Self {
        MachineInfo {
            id,
            parent: None,
            kind: MachineKind::Host,
            name: name.into(),
            vmm_pid: None,
            cgroup: None,
            domid: None,
            clock: None,
        }
    }

    /// Its row; the run adds how far its clock may be off, and the recording's unit of time.
    pub(crate) fn row(&self) -> Machine {
        Machine {
            machine_id: self.id,
            parent_id: self.parent,
            kind: self.kind,
            name: self.name.clone(),
            domid: self.domid,
            vmm_pid: self.vmm_pid,
            cgroup: self.cgroup.clone(),
            clock: self.clock.clone(),
            error_bound_ns: None,
            time_unit: None,
        }
    }

    /// A hypervisor below the first kernel, at the root of a recording.
    pub fn hypervisor(id: MachineId, name: impl Into<String>) -> Self {
        MachineInfo { kind: MachineKind::Hypervisor, ..MachineInfo::host(id, name) }
    }

    /// A VM on `parent`.
    pub fn guest(id: MachineId, parent: MachineId, name: impl Into<String>) -> Self {
        MachineInfo {
            parent: Some(parent),
            kind: MachineKind::Guest,
            ..MachineInfo::host(id, name)
        }
    }
}

/// A vCPU and the thread of the parent machine that runs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuInfo {
    /// The VM.
    pub machine: MachineId,
    /// The vCPU's number in KVM.
    pub vcpu: VcpuId,
    /// The thread of the parent that runs it, if known.
    pub vmm_tid: Option<Tid>,
    /// The CPU number the guest's kernel gives it. With QEMU and every VMM we know of it is the
    /// vCPU's number unless the guest was told otherwise by firmware tables.
    pub guest_cpu: CpuId,
}

/// A thread known from outside the trace (procfs, saved command lines).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadInfo {
    /// The machine whose kernel schedules it.
    pub machine: MachineId,
    /// Thread id.
    pub tid: Tid,
    /// Process id (thread group).
    pub pid: Option<Tid>,
    /// Its name.
    pub name: String,
    /// Its control group.
    pub cgroup: Option<String>,
    /// When it was created, at the latest, in trace time, if the source knows (procfs): it lived
    /// from then on.
    pub born: Option<i64>,
    /// How it was scheduled when recording began.
    pub settings: ThreadSettings,
}

/// An interrupt line as the machine's kernel listed it when recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IrqLineInfo {
    /// The machine whose kernel serves it.
    pub machine: MachineId,
    /// The line's number, as in `irq_handler_entry`.
    pub irq: i32,
    /// The names of its handlers, as `/proc/interrupts` prints them: `virtio1-req.0`.
    pub name: String,
}

/// A control group and its limits when recording began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupInfo {
    /// The machine whose kernel has it.
    pub machine: MachineId,
    /// Its path, as in [`ThreadInfo::cgroup`].
    pub name: String,
    /// Its limits.
    pub settings: CgroupSettings,
}

impl CgroupInfo {
    /// Its row.
    pub(crate) fn row(self) -> Cgroup {
        let CgroupSettings {
            cpu_weight,
            cpu_quota_ns,
            cpu_period_ns,
            cpus,
            memory_max_bytes,
            memory_high_bytes,
            io_weight,
        } = self.settings;
        Cgroup {
            machine_id: self.machine,
            cgroup: self.name,
            cpu_weight,
            cpu_quota_ns,
            cpu_period_ns,
            cpus,
            memory_max_bytes,
            memory_high_bytes,
            io_weight,
        }
    }
}

/// A stack that events name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackInfo {
    /// The machine whose kernel has it.
    pub machine: MachineId,
    /// Its number in the recording.
    pub id: u32,
    /// Its frames, the innermost first.
    pub frames: Vec<Frame>,
}

impl StackInfo {
    /// A row for each frame.
    pub(crate) fn rows(self) -> impl Iterator<Item = Stack> {
        let (machine_id, stack_id) = (self.machine, self.id);
        let row = move |(depth, Frame { symbol, module })| Stack {
            machine_id,
            stack_id,
            depth,
            symbol,
            module,
        };
        (0..).zip(self.frames).map(row)
    }
}

/// Everything known about the actors before the first event is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// The machines; `machines[i].id == MachineId(i)`.
    pub machines: Vec<MachineInfo>,
    /// The vCPUs known.
    pub vcpus: Vec<VcpuInfo>,
    /// The threads known.
    pub threads: Vec<ThreadInfo>,
    /// The interrupt lines known.
    pub irq_lines: Vec<IrqLineInfo>,
    /// The control groups known.
    pub cgroups: Vec<CgroupInfo>,
    /// The frames of the stacks that events name.
    pub stacks: Vec<StackInfo>,
}

impl Topology {
    /// Is this machine one whose events define the recording's span: one that runs on no other
    /// machine of the recording?
    pub fn is_root(&self, machine: MachineId) -> bool {
        self.machines.iter().find(|m| m.id == machine).is_none_or(|m| m.parent.is_none())
    }

    /// Checks what the rest of the engine relies on; says what is wrong in one line.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.machines.is_empty() {
            return Err("the topology names no machine".into());
        }
        for (at, machine) in self.machines.iter().enumerate() {
            if usize::try_from(machine.id.0) != Ok(at) {
                return Err(format!("machine {} is listed as number {at}", machine.id));
            }
            if machine.parent.is_some_and(|parent| parent >= machine.id) {
                return Err(format!("machine {} is listed before its parent", machine.id));
            }
        }
        let known = |id: MachineId| usize::try_from(id.0).is_ok_and(|at| at < self.machines.len());
        if let Some(vcpu) = self.vcpus.iter().find(|v| !known(v.machine)) {
            return Err(format!("vCPU {} belongs to unknown machine {}", vcpu.vcpu, vcpu.machine));
        }
        if let Some(thread) = self.threads.iter().find(|t| !known(t.machine)) {
            return Err(format!("thread {} is on unknown machine {}", thread.tid, thread.machine));
        }
        if let Some(line) = self.irq_lines.iter().find(|line| !known(line.machine)) {
            return Err(format!("interrupt {} is on unknown machine {}", line.irq, line.machine));
        }
        if let Some(group) = self.cgroups.iter().find(|group| !known(group.machine)) {
            return Err(format!("a control group is on unknown machine {}", group.machine));
        }
        if let Some(stack) = self.stacks.iter().find(|stack| !known(stack.machine)) {
            return Err(format!("a stack is of unknown machine {}", stack.machine));
        }
        Ok(())
    }
}
