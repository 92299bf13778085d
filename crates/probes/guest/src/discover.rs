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
mod process;
mod roster;
mod vmm;

pub use cmdline::SerialPort;
pub use debugfs::{TscOffset, tsc_offsets};
pub use roster::{Roster, Scan};
pub use vmm::VmmKind;

use crate::{proto::MachineFacts, transport::Endpoint};
use process::Process;
use std::{collections::BTreeMap, path::Path};

const DEBUGFS: &str = "/sys/kernel/debug";

/// How a vCPU's thread was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundBy {
    /// KVM itself says so (`/sys/kernel/debug/kvm/PID-FD/vcpuN/pid`, kernel 6.0).
    Kvm,
    /// The VMM named its thread (`CPU 0/KVM`, `fc_vcpu 0`, …).
    ThreadName,
    /// KVM has the vCPU, but no thread is known to run it.
    Unknown,
}

/// One vCPU of a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VcpuThread {
    /// KVM's number for it.
    pub vcpu: u32,
    /// The host thread that runs it.
    pub tid: Option<i32>,
    /// Where that is known from.
    pub found_by: FoundBy,
}

/// A VM and the process that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Process id of the VMM.
    pub pid: i32,
    /// Start of the process, clock ticks since boot: tells it from a later one of the same pid.
    pub start_ticks: u64,
    /// Its name: given by the user or manager, else `VMM-PID`. Unique within a [`Discovery`].
    pub name: String,
    /// Which VMM.
    pub vmm: VmmKind,
    /// Does it run under KVM? False for emulators: then there are no `kvm` events of it.
    pub uses_kvm: bool,
    /// Hardware UUID, lower case, if the command line tells it.
    pub uuid: Option<String>,
    /// vsock address.
    pub vsock_cid: Option<u32>,
    /// Sockets of its virtio-serial ports.
    pub serial_ports: Vec<SerialPort>,
    /// Control group of the process.
    pub cgroup: Option<String>,
    /// Its vCPUs, by number.
    pub vcpus: Vec<VcpuThread>,
    /// Host threads that move its virtio queues.
    pub vhost_workers: Vec<i32>,
}

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

impl Vm {
    fn has_serial_socket(&self, path: &Path) -> bool {
        self.serial_ports.iter().any(|port| {
            // A relative path in its command line starts at the VMM's directory, ours at ours.
            let theirs = Path::new("/proc").join(self.pid.to_string()).join("cwd").join(&port.path);
            port.path == path || same_file(path, &theirs)
        })
    }

    /// A line for the user: name, process, vCPUs.
    pub fn describe(&self) -> String {
        let threads = self.vcpus.iter().filter(|vcpu| vcpu.tid.is_some()).count();
        let cid = self.vsock_cid.map_or(String::new(), |cid| format!(", vsock cid {cid}"));
        format!(
            "{} ({} pid {}, {} vCPUs, {} with a known thread{cid})",
            self.name,
            self.vmm.as_str(),
            self.pid,
            self.vcpus.len(),
            threads
        )
    }
}

fn same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
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

/// Does this (kernel) process move virtio queues for that VMM?
fn is_vhost_worker(process: &Process, vmm_pid: i32) -> bool {
    // Before 6.4 vhost workers are kernel threads named after the process they work for
    // (drivers/vhost/vhost.c, vhost_worker_create); since then they are threads inside it.
    process.comm == format!("vhost-{vmm_pid}")
}
