//! A VM and its vCPUs.

use super::{cmdline::SerialPort, kind::VmmKind};
use std::path::Path;

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
    /// Its name: given by the user or manager, else `VMM-PID`. Unique within a [`Discovery`](super::Discovery).
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

impl Vm {
    pub(super) fn has_serial_socket(&self, path: &Path) -> bool {
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
