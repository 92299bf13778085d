//! What can be looked at, and where rows lead.

use crate::who::{Who, full_name};
use transect_live::Snapshot;
use transect_model::ids::{CpuId, MachineId};

/// Something that can be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// VMs, containers and control groups.
    All,
    /// A VM's vCPUs and other threads.
    Vm(MachineId),
    /// A container's or control group's threads.
    Group(String),
    /// Every thread.
    Threads,
    /// What rules found in the window.
    Findings,
    /// A CPU and who was on it.
    Cpu(CpuId),
    /// A vCPU or thread.
    One(Who),
}

/// Where Enter goes from a row.
pub(crate) fn into(who: &Who) -> Option<View> {
    match who {
        Who::Vm(id) => Some(View::Vm(*id)),
        Who::Group(group) => Some(View::Group(group.clone())),
        Who::Vcpu(..) | Who::Thread(_) => Some(View::One(who.clone())),
        Who::Cpu(cpu) => Some(View::Cpu(*cpu)),
        Who::Finding(who, _) => into(who),
        Who::Exit(_) | Who::Metric(..) => None,
    }
}

/// What a view is called on the way down.
pub(crate) fn title(view: &View, snapshot: Option<&Snapshot>) -> String {
    let name = |who: Who| match snapshot {
        Some(snapshot) => full_name(snapshot, &who),
        None => String::new(),
    };
    match view {
        View::All => "VMs, containers, groups".to_owned(),
        View::Vm(id) => name(Who::Vm(*id)),
        View::Group(group) => name(Who::Group(group.clone())),
        View::Threads => "threads".to_owned(),
        View::Findings => "findings".to_owned(),
        View::Cpu(cpu) => format!("CPU {cpu}"),
        View::One(who) => name(who.clone()),
    }
}
