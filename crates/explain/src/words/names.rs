//! Who is who, in words.

use crate::{
    blame::Party,
    piece::{Actor, By, ThreadId},
    rows::Rows,
};
use transect_model::{
    ids::{MachineId, MachineKind, VcpuId},
    table::Machine,
};

/// What is called how: the rows of a recording, or a live window.
pub trait Names {
    /// A machine.
    fn machine(&self, id: MachineId) -> Option<&Machine>;

    /// A thread's name; empty if it has none.
    fn thread_name(&self, id: ThreadId) -> &str;

    /// The vCPU that a thread runs.
    fn vcpu_of_thread(&self, id: ThreadId) -> Option<(MachineId, VcpuId)>;

    /// A control group: its path, or what people call what runs in it.
    fn group_name(&self, _machine: MachineId, path: &str) -> String {
        path.to_owned()
    }
}

impl Names for Rows<'_> {
    fn machine(&self, id: MachineId) -> Option<&Machine> {
        Rows::machine(self, id)
    }

    fn thread_name(&self, id: ThreadId) -> &str {
        self.thread(id).map(|thread| thread.name.as_str()).unwrap_or_default()
    }

    fn vcpu_of_thread(&self, id: ThreadId) -> Option<(MachineId, VcpuId)> {
        Rows::vcpu_of_thread(self, id)
    }
}

/// A machine's name, or its number if it has none.
pub fn machine(names: &dyn Names, id: MachineId) -> String {
    let name = names.machine(id).map(|machine| machine.name.clone());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("machine {id}"))
}

/// `web vcpu0` for a vCPU's thread, `nginx (42) in web` for a guest's, `kworker/0:1 (7)` for the host's.
pub fn thread(names: &dyn Names, id: ThreadId) -> String {
    if let Some((machine, vcpu)) = names.vcpu_of_thread(id) {
        return self::vcpu(names, machine, vcpu);
    }
    let own = match names.thread_name(id) {
        "" => format!("thread {}", id.tid),
        name => format!("{name} ({})", id.tid),
    };
    match names.machine(id.machine).and_then(|machine| machine.parent_id) {
        Some(_) => format!("{own} in {}", machine(names, id.machine)),
        None => own,
    }
}

/// `web vcpu0`.
pub fn vcpu(names: &dyn Names, of: MachineId, vcpu: VcpuId) -> String {
    format!("{} vcpu{vcpu}", machine(names, of))
}

/// Who is explained.
pub fn actor(names: &dyn Names, actor: Actor) -> String {
    match actor {
        Actor::Thread(id) => thread(names, id),
        Actor::Vcpu(machine, vcpu) => self::vcpu(names, machine, vcpu),
    }
}

/// Who has a CPU.
pub fn by(names: &dyn Names, by: By) -> String {
    match by {
        By::Thread(id) => thread(names, id),
        By::Vcpu(machine, vcpu) => self::vcpu(names, machine, vcpu),
        By::Idle => "nobody".to_owned(),
    }
}

/// Who waits, or has a CPU.
pub fn party(names: &dyn Names, party: &Party) -> String {
    match party {
        Party::Thread(id) => thread(names, *id),
        Party::Vcpu(machine, vcpu) => self::vcpu(names, *machine, *vcpu),
        Party::Group(of, path) => {
            let group = names.group_name(*of, path);
            match names.machine(*of).is_some_and(|machine| machine.kind == MachineKind::Guest) {
                true => format!("{group} in {}", machine(names, *of)),
                false => group,
            }
        }
        Party::Machine(of) => machine(names, *of),
        Party::Idle => "nobody".to_owned(),
        Party::Quota => "its quota".to_owned(),
        Party::Unknown => "unknown".to_owned(),
    }
}
