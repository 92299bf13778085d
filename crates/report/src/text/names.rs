//! Who is who, in words.

use crate::build::Report;
use crate::lines::AntagonistLine;
use transect_model::ids::MachineId;

/// Who had the CPU, in words.
pub(crate) fn antagonist(line: &AntagonistLine) -> String {
    let machine = line.by_machine.clone().unwrap_or_default();
    match (line.by_kind.as_str(), line.by_vcpu, &line.by_name) {
        ("vcpu", Some(vcpu), _) => format!("{machine} vcpu{vcpu}"),
        ("machine", ..) => machine,
        ("thread", _, Some(name)) => format!("{machine} thread {name}"),
        ("idle", ..) => "none (the CPU was leaving idle)".to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// A machine's name, or its number if the report does not list it.
pub(crate) fn machine_name(report: &Report, id: MachineId) -> String {
    let machine = report.machines.iter().find(|m| m.machine_id == id);
    machine.map_or_else(|| format!("machine {id}"), |m| m.name.clone())
}
