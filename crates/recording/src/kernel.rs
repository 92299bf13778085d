//! The kernel that the recorder of a host recorded.

use transect_engine::StreamKey;
use transect_model::ids::{MachineId, MachineKind};
use transect_store::Manifest;
use transect_store::manifest::MachineEntry;

/// The machine whose kernel the recorder of a host recorded: under Xen, the second one.
pub(crate) fn recorded_kernel(manifest: &Manifest) -> Option<MachineId> {
    let is_kernel = |machine: &&MachineEntry| machine.kind != MachineKind::Hypervisor;
    manifest.machines.iter().find(is_kernel).map(|machine| machine.id)
}

/// The CPUs of the recorded kernel.
pub(crate) fn recorded_cpus(manifest: &Manifest) -> Vec<StreamKey> {
    let Some(machine) = recorded_kernel(manifest) else { return Vec::new() };
    manifest.online.iter().map(|cpu| StreamKey { machine, cpu: *cpu }).collect()
}
