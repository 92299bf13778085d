//! Which machines a report is about.

use anyhow::Context;
use std::collections::BTreeSet;
use transect_model::ids::{MachineId, MachineKind};
use transect_model::table::{Machine, Tables};

/// The machines that were selected.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// `None`: all of them.
    machines: Option<BTreeSet<MachineId>>,
}

impl Selection {
    /// The VMs of these names (or numbers) and the machines they run on; without names, all.
    pub(super) fn by_name(tables: &Tables, vms: &[String]) -> anyhow::Result<Self> {
        if vms.is_empty() {
            return Ok(Selection::default());
        }
        let mut machines = BTreeSet::new();
        for wanted in vms {
            let found = tables
                .machines
                .iter()
                .find(|m| m.name == *wanted || m.machine_id.to_string() == *wanted)
                .with_context(|| no_such_machine(tables, wanted))?;
            machines.insert(found.machine_id);
        }
        Ok(Selection { machines: Some(machines) })
    }

    /// Is this machine in the report?
    pub(super) fn machine(&self, id: MachineId) -> bool {
        self.machines.as_ref().is_none_or(|machines| machines.contains(&id))
    }

    /// Is one of these in it? Without names, also what is of no machine.
    pub(super) fn any_of(&self, ids: [Option<MachineId>; 2]) -> bool {
        self.machines.is_none() || ids.into_iter().flatten().any(|id| self.machine(id))
    }

    /// Is it, or does a machine of the report run on it?
    pub(super) fn machine_or_host(&self, machine: &Machine) -> bool {
        let is_root = matches!(machine.kind, MachineKind::Host | MachineKind::Hypervisor);
        self.machine(machine.machine_id) || is_root
    }
}

fn no_such_machine(tables: &Tables, wanted: &str) -> String {
    let known: Vec<&str> = tables.machines.iter().map(|m| m.name.as_str()).collect();
    format!(
        "no machine '{wanted}' in this recording; it has: {}",
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )
}
