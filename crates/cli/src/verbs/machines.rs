//! Machines as they are named on the command line.

use anyhow::bail;
use transect_model::ids::MachineId;
use transect_model::table::Machine;

/// The machine of that name, or of that number.
///
/// # Errors
/// There is none.
pub(super) fn machine_named(machines: &[Machine], name: &str) -> anyhow::Result<MachineId> {
    let number = name.parse::<u32>().ok().map(MachineId);
    let named = machines.iter().find(|machine| machine.name == name);
    let found =
        named.or_else(|| machines.iter().find(|machine| Some(machine.machine_id) == number));
    if let Some(machine) = found {
        return Ok(machine.machine_id);
    }
    let names: Vec<&str> = machines.iter().map(|machine| machine.name.as_str()).collect();
    bail!("no machine is called {name:?}; there are {}", names.join(", "))
}
