//! Whom rows are about.

use transect_live::{ActorWindow, ContainerWindow, FindingWindow, Snapshot, ThreadWindow};
use transect_model::ids::{CpuId, MachineId, Tid, VcpuId};

/// The actor of a row: the same one in every window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Who {
    /// A VM.
    Vm(MachineId),
    /// A vCPU, whichever thread runs it.
    Vcpu(MachineId, VcpuId),
    /// A control group, or the container that has it.
    Group(String),
    /// A thread of the host.
    Thread(Tid),
    /// An exit reason, of the actor that is shown.
    Exit(String),
    /// A metric that is missing.
    Metric(String, Option<MachineId>),
    /// A CPU.
    Cpu(CpuId),
    /// What a rule found of somebody; the rule's name.
    Finding(Box<Who>, &'static str),
}

impl Who {
    /// Of a row of `windows`.
    pub(crate) fn of_actor(row: &ActorWindow) -> Self {
        match (&row.window.cgroup, row.window.vcpu) {
            (Some(group), _) => Who::Group(group.clone()),
            (None, Some(vcpu)) => Who::Vcpu(row.window.machine_id, vcpu),
            (None, None) => Who::Vm(row.window.machine_id),
        }
    }

    /// Whom a finding is about.
    pub(crate) fn of_finding(row: &FindingWindow) -> Self {
        match (&row.cgroup, row.vcpu, row.tid) {
            (Some(group), ..) => Who::Group(group.clone()),
            (_, Some(vcpu), _) => Who::Vcpu(row.machine_id, vcpu),
            (.., Some(tid)) => Who::Thread(tid),
            _ => Who::Vm(row.machine_id),
        }
    }

    /// Of a thread: its vCPU, if it runs one.
    pub(crate) fn of_thread(row: &ThreadWindow) -> Self {
        match (row.vm_machine_id, row.vcpu) {
            (Some(vm), Some(vcpu)) => Who::Vcpu(vm, vcpu),
            _ => Who::Thread(row.tid),
        }
    }
}

/// A machine's name.
pub(crate) fn machine_name(snapshot: &Snapshot, id: MachineId) -> String {
    let found = snapshot.machines.iter().find(|machine| machine.machine_id == id);
    found.map_or_else(|| format!("machine {id}"), |machine| machine.name.clone())
}

/// The container that has this control group for its own.
pub(crate) fn container<'a>(snapshot: &'a Snapshot, group: &str) -> Option<&'a ContainerWindow> {
    snapshot.containers.iter().map(|(row, _)| row).find(|row| row.cgroup == group)
}

/// What a container is called, with its pod; else the control group.
pub(crate) fn group_name(snapshot: &Snapshot, group: &str) -> String {
    container(snapshot, group).map_or_else(|| group.to_owned(), ContainerWindow::full_name)
}

/// Is a control group this one, or one in the container that it is?
pub(crate) fn is_in(snapshot: &Snapshot, group: &str, of: Option<&str>) -> bool {
    let Some(of) = of else { return false };
    let below = || of.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'));
    of == group || (container(snapshot, group).is_some() && below())
}

/// The row of a thread or vCPU.
pub(crate) fn thread_row<'a>(snapshot: &'a Snapshot, who: &Who) -> Option<&'a ThreadWindow> {
    snapshot.threads.iter().find(|thread| Who::of_thread(thread) == *who)
}

/// What a thread is called in lists of one VM or group.
pub(crate) fn thread_name(thread: &ThreadWindow) -> String {
    match thread.vcpu {
        Some(vcpu) if thread.vm_machine_id.is_some() => format!("vCPU {vcpu}"),
        _ => thread.name.clone(),
    }
}

/// What an actor is called where it stands by itself.
pub(crate) fn full_name(snapshot: &Snapshot, who: &Who) -> String {
    match who {
        Who::Vm(id) => machine_name(snapshot, *id),
        Who::Vcpu(id, vcpu) => format!("{} vCPU {vcpu}", machine_name(snapshot, *id)),
        Who::Group(group) => group_name(snapshot, group),
        Who::Thread(tid) => match thread_row(snapshot, who) {
            Some(thread) => format!("{} ({tid})", thread_label(snapshot, thread)),
            None => format!("thread {tid}"),
        },
        Who::Exit(reason) => reason.clone(),
        Who::Metric(metric, _) => metric.clone(),
        Who::Cpu(cpu) => format!("CPU {cpu}"),
        Who::Finding(who, _) => full_name(snapshot, who),
    }
}

/// A thread with the VM it works for.
pub(crate) fn thread_label(snapshot: &Snapshot, thread: &ThreadWindow) -> String {
    match thread.vm_machine_id {
        Some(vm) => format!("{} {}", machine_name(snapshot, vm), thread_name(thread)),
        None => thread.name.clone(),
    }
}
