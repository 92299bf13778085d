//! VMs as the host sees them, without any agent: VMM processes, their vCPU threads, KVM's clocks.
//!
//! **What.** [`vms`] scans procfs for processes that hold KVM descriptors or look like a known
//! VMM; each becomes a [`Vm`] with name, vCPU threads, vhost workers, vsock address and
//! virtio-serial sockets. [`tsc_offsets`] reads from KVM's debugfs how a guest's TSC follows from
//! the host's. [`Discovery::find`] says which VM an agent's channel leads to.
//!
//! **Design constraints.** Read-only. What could not be learned is said in [`Discovery::notes`],
//! never guessed: a vCPU without a known thread has none, and the engine may still find it from
//! `kvm` events. Everything below `/proc` may vanish while it is read; a VM that does is left out.

mod cmdline;
mod debugfs;
mod kind;
mod process;
mod roster;
mod vm;
mod vmm;

pub use cmdline::SerialPort;
pub use debugfs::{TscOffset, tsc_offsets};
pub use kind::VmmKind;
pub use roster::{Roster, Scan};
pub use vm::{FoundBy, VcpuThread, Vm};

use crate::{proto::MachineFacts, transport::Endpoint};
use std::{collections::BTreeMap, path::Path};

const DEBUGFS: &str = "/sys/kernel/debug";

/// What a scan found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovery {
    /// The VMs, by pid.
    pub vms: Vec<Vm>,
    /// What could not be learned, and how to mend that; one sentence each.
    pub notes: Vec<String>,
}

impl Discovery {
    /// The VM that an agent's channel leads to, if exactly one fits: by vsock address, by the
    /// chardev's socket, or by the hardware UUID the agent reads.
    pub fn find(&self, endpoint: &Endpoint, facts: Option<&MachineFacts>) -> Option<&Vm> {
        let by_channel = |vm: &&Vm| match endpoint {
            Endpoint::Vsock { cid, .. } => vm.vsock_cid == Some(*cid),
            Endpoint::VirtioSerial(path) => vm.has_serial_socket(path),
            Endpoint::Tcp(_) => false,
        };
        let only = |fits: &dyn Fn(&&Vm) -> bool| {
            let mut fitting = self.vms.iter().filter(fits);
            fitting.next().filter(|_| fitting.next().is_none())
        };
        let uuid = facts
            .map(|facts| facts.uuid.raw_for_storage().to_lowercase())
            .filter(|uuid| !uuid.is_empty());
        let cid = facts.and_then(|facts| facts.vsock_cid);
        only(&by_channel)
            .or_else(|| uuid.and_then(|uuid| only(&|vm| vm.uuid.as_ref() == Some(&uuid))))
            .or_else(|| cid.and_then(|cid| only(&|vm| vm.vsock_cid == Some(cid))))
    }
}

/// Scans this machine for VMs, under the process ids of this pid namespace.
pub fn vms() -> Discovery {
    vms_in(Some(Path::new("/proc")))
}

/// Scans a procfs for VMs. Without a procfs whose ids the caller can use, there is none to find.
pub fn vms_in(procfs: Option<&Path>) -> Discovery {
    procfs.map_or_else(Discovery::default, |procfs| vms_below(procfs, Path::new(DEBUGFS)))
}

/// Does this process run a VM? Checks for one process what [`vms_in`] checks for all.
pub fn runs_vm(procfs: &Path, pid: i32) -> bool {
    let process = process::read(procfs, pid);
    process.is_some_and(|process| vmm::recognise(&process, &[], Path::new(DEBUGFS)).is_some())
}

/// Scans a procfs and debugfs mounted elsewhere (tests, containers).
pub fn vms_below(procfs: &Path, debugfs: &Path) -> Discovery {
    let mut discovery = Discovery::default();
    let processes = process::all(procfs);
    for process in &processes {
        if let Some(vm) = vmm::recognise(process, &processes, debugfs) {
            discovery.vms.push(vm);
        }
    }
    make_names_unique(&mut discovery.vms);
    note_what_is_missing(&mut discovery, procfs, debugfs);
    discovery
}

/// Two VMs of one name (that happens with plain QEMU) become NAME and NAME-PID.
fn make_names_unique(vms: &mut [Vm]) {
    let mut seen = BTreeMap::new();
    for vm in vms {
        let count = seen.entry(vm.name.clone()).or_insert(0);
        *count += 1;
        if *count > 1 {
            vm.name = format!("{}-{}", vm.name, vm.pid);
        }
    }
}

fn note_what_is_missing(discovery: &mut Discovery, procfs: &Path, debugfs: &Path) {
    let kvm_vms = || discovery.vms.iter().filter(|vm| vm.uses_kvm);
    let mut notes: Vec<String> = kvm_vms()
        .filter(|vm| vm.vcpus.iter().any(|vcpu| vcpu.tid.is_none()) || vm.vcpus.is_empty())
        .map(|vm| {
            format!(
                "{}: the threads of some vCPUs are unknown until kvm events identify them; to \
                 know them at the start, run QEMU with '-name {},debug-threads=on', or use Linux \
                 6.0 or later with debugfs mounted",
                vm.name, vm.name
            )
        })
        .collect();
    if kvm_vms().next().is_some() {
        notes.extend(debugfs::problem(procfs, debugfs));
    }
    discovery.notes = notes;
}
