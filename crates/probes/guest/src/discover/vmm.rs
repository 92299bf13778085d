//! Which process is a VM, of which VMM, and which of its threads are vCPUs.

use super::{
    cmdline::{QemuLine, cid_of, flag, qemu},
    debugfs,
    kind::{VmmKind, vcpu_of_name},
    process::{KvmFds, Process, Thread},
    vm::{FoundBy, VcpuThread, Vm},
};
use std::{collections::BTreeMap, path::Path};

/// The VM this process runs, if it runs one.
pub(super) fn recognise(process: &Process, all: &[Process], debugfs: &Path) -> Option<Vm> {
    if process.args.is_empty() {
        return None;
    }
    let fds = process.kvm_fds();
    let uses_kvm = !fds.vms.is_empty();
    let kind = VmmKind::of(process);
    // Without KVM only an emulator that says so is a VM: `vm` and `kvm` are anybody's names.
    let is_emulator = process.exe.starts_with("qemu-system-");
    if !uses_kvm && !is_emulator {
        return None;
    }
    let threads = process.threads();
    let line = qemu(&process.args);
    let kind = kind.unwrap_or(VmmKind::Other);
    Some(Vm {
        pid: process.pid,
        start_ticks: process.start_ticks,
        name: name(process, kind, &line),
        vmm: kind,
        uses_kvm,
        vsock_cid: line.vsock_cid.or_else(|| other_cid(process, kind)),
        uuid: line.uuid,
        serial_ports: line.serial_ports,
        cgroup: process.cgroup(),
        vcpus: vcpus(process, &fds, &threads, debugfs),
        vhost_workers: vhost_workers(process, all, &threads),
    })
}

fn name(process: &Process, kind: VmmKind, line: &QemuLine) -> String {
    let given = match kind {
        VmmKind::Qemu => line.name.clone(),
        VmmKind::Firecracker => flag(&process.args, "--id"),
        VmmKind::Kvmtool => flag(&process.args, "--name").or_else(|| flag(&process.args, "-n")),
        VmmKind::CloudHypervisor | VmmKind::Crosvm | VmmKind::Other => None,
    };
    let fallback = || match kind {
        VmmKind::Other => format!("{}-{}", process.comm, process.pid),
        _ => format!("{}-{}", kind.as_str(), process.pid),
    };
    tidy(&given.filter(|name| !name.is_empty()).unwrap_or_else(fallback))
}

/// Names become file names and columns: other characters than the plain ones turn to `_`.
fn tidy(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let tidy: String = name.chars().take(64).map(|c| if plain(c) { c } else { '_' }).collect();
    match tidy.strip_prefix('.') {
        Some(rest) => format!("_{rest}"),
        None => tidy,
    }
}

fn other_cid(process: &Process, kind: VmmKind) -> Option<u32> {
    match kind {
        VmmKind::CloudHypervisor => cid_of(&flag(&process.args, "--vsock")?),
        VmmKind::Crosvm => {
            let value = flag(&process.args, "--cid").or_else(|| flag(&process.args, "--vsock"))?;
            value.parse().ok().or_else(|| cid_of(&value))
        }
        _ => None,
    }
}

/// The vCPUs KVM or thread names tell of, each with the best known thread.
fn vcpus(process: &Process, fds: &KvmFds, threads: &[Thread], debugfs: &Path) -> Vec<VcpuThread> {
    let mut found: BTreeMap<u32, VcpuThread> = BTreeMap::new();
    let numbers = fds.vcpus.iter().copied().chain(debugfs::vcpus(debugfs, process.pid));
    for vcpu in numbers {
        found.insert(vcpu, VcpuThread { vcpu, tid: None, found_by: FoundBy::Unknown });
    }
    for thread in threads {
        if let Some(vcpu) = vcpu_of_name(&thread.comm) {
            let found_by = FoundBy::ThreadName;
            found.insert(vcpu, VcpuThread { vcpu, tid: Some(thread.tid), found_by });
        }
    }
    for vcpu in found.values_mut() {
        if let Some(tid) = debugfs::vcpu_tid(debugfs, process.pid, vcpu.vcpu) {
            *vcpu = VcpuThread { vcpu: vcpu.vcpu, tid: Some(tid), found_by: FoundBy::Kvm };
        }
    }
    found.into_values().collect()
}

fn vhost_workers(process: &Process, all: &[Process], threads: &[Thread]) -> Vec<i32> {
    let name = format!("vhost-{}", process.pid);
    let inside = threads.iter().filter(|thread| thread.comm == name).map(|thread| thread.tid);
    let kernel = all.iter().filter(|other| is_vhost_worker(other, process.pid));
    inside.chain(kernel.map(|other| other.pid)).collect()
}

/// Does this (kernel) process move virtio queues for that VMM?
fn is_vhost_worker(process: &Process, vmm_pid: i32) -> bool {
    // Before 6.4 vhost workers are kernel threads named after the process they work for
    // (drivers/vhost/vhost.c, vhost_worker_create); since then they are threads inside it.
    process.comm == format!("vhost-{vmm_pid}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_for_files() {
        assert_eq!(tidy("web 1/../x"), "web_1_.._x");
        assert_eq!(tidy(".hidden"), "_hidden");
        assert_eq!(tidy(&"x".repeat(99)).len(), 64);
    }
}
