//! Who is who, in words.

use crate::{
    blame::Party,
    piece::{Actor, By, ThreadId},
    rows::Rows,
};
use transect_model::ids::{MachineId, VcpuId};

/// A machine's name, or its number if it has none.
pub fn machine(rows: &Rows<'_>, id: MachineId) -> String {
    let name = rows.machine(id).map(|machine| machine.name.clone());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| format!("machine {id}"))
}

/// `web vcpu0` for a vCPU's thread, `nginx (42) in web` for a guest's, `kworker/0:1 (7)` for the host's.
pub fn thread(rows: &Rows<'_>, id: ThreadId) -> String {
    if let Some((machine, vcpu)) = rows.vcpu_of_thread(id) {
        return self::vcpu(rows, machine, vcpu);
    }
    let name = rows.thread(id).map(|thread| thread.name.as_str()).unwrap_or_default();
    let own = match name {
        "" => format!("thread {}", id.tid),
        name => format!("{name} ({})", id.tid),
    };
    match rows.machine(id.machine).and_then(|machine| machine.parent_id) {
        Some(_) => format!("{own} in {}", machine(rows, id.machine)),
        None => own,
    }
}

/// `web vcpu0`.
pub fn vcpu(rows: &Rows<'_>, of: MachineId, vcpu: VcpuId) -> String {
    format!("{} vcpu{vcpu}", machine(rows, of))
}

/// Who is explained.
pub fn actor(rows: &Rows<'_>, actor: Actor) -> String {
    match actor {
        Actor::Thread(id) => thread(rows, id),
        Actor::Vcpu(machine, vcpu) => self::vcpu(rows, machine, vcpu),
    }
}

/// Who has a CPU.
pub fn by(rows: &Rows<'_>, by: By) -> String {
    match by {
        By::Thread(id) => thread(rows, id),
        By::Vcpu(machine, vcpu) => self::vcpu(rows, machine, vcpu),
        By::Idle => "nobody".to_owned(),
    }
}

/// Who waits, or has a CPU.
pub fn party(rows: &Rows<'_>, party: &Party) -> String {
    match party {
        Party::Thread(id) => thread(rows, *id),
        Party::Vcpu(machine, vcpu) => self::vcpu(rows, *machine, *vcpu),
        Party::Group(of, path) => match rows.is_guest(*of) {
            true => format!("{path} in {}", machine(rows, *of)),
            false => path.clone(),
        },
        Party::Machine(of) => machine(rows, *of),
        Party::Idle => "nobody".to_owned(),
        Party::Quota => "its quota".to_owned(),
        Party::Unknown => "unknown".to_owned(),
    }
}
