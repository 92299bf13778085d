//! What guests can be reached through, and which guests there are.

use super::check::Check;
use std::path::Path;
use transect_guest::discover::{self, Vm};
use transect_tracefs::Namespaces;

pub(super) fn checks() -> Vec<Check> {
    let mut all = vec![btf(), vsock()];
    all.extend(guests());
    all
}

/// BTF lets the compact collector's programs fit this kernel without a compiler.
fn btf() -> Check {
    match std::fs::metadata("/sys/kernel/btf/vmlinux") {
        Ok(meta) => Check::ok(
            "btf",
            format!("the kernel provides its type information ({} KiB)", meta.len() / 1024),
        ),
        Err(_) => Check::missing(
            "btf",
            "no /sys/kernel/btf/vmlinux: the compact collector (BPF) cannot run, the full collector (tracefs) can",
            "boot a kernel built with CONFIG_DEBUG_INFO_BTF, as distribution kernels are",
        ),
    }
}

/// The host's end of AF_VSOCK to guests is vhost-vsock.
fn vsock() -> Check {
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/vhost-vsock") {
        Ok(_) => {
            Check::ok("vsock", "/dev/vhost-vsock opens: agents in guests are reachable over vsock")
        }
        Err(_) if Path::new("/dev/vhost-vsock").exists() => {
            Check::limited("vsock", "cannot open /dev/vhost-vsock", "run as root")
        }
        Err(_) => Check::limited(
            "vsock",
            "no /dev/vhost-vsock: agents in guests are reachable over virtio-serial only",
            "modprobe vhost_vsock",
        ),
    }
}

/// The VMs that run now, one line each, and how each could be recorded.
fn guests() -> Vec<Check> {
    let namespaces = Namespaces::current();
    if let Some(why) = namespaces.why_no_processes() {
        let finding = format!("VMs cannot be discovered: {why}");
        return vec![Check::limited("guests", finding, namespaces.fix().unwrap_or_default())];
    }
    let found = discover::vms_in(namespaces.procfs());
    let mut all: Vec<Check> = found.vms.iter().map(guest).collect();
    if all.is_empty() {
        all.push(Check::ok("guests", "none is running"));
    }
    all.extend(found.notes.into_iter().map(|note| Check::limited("guests", note, "")));
    all
}

fn guest(vm: &Vm) -> Check {
    let threads = vm.vcpus.iter().filter(|vcpu| vcpu.tid.is_some()).count();
    let what = format!(
        "{}: {} process {}, {} of {} vCPU threads found{}",
        vm.name,
        vm.vmm.as_str(),
        vm.pid,
        threads,
        vm.vcpus.len(),
        if vm.uses_kvm { "" } else { ", without KVM" },
    );
    match channel(vm) {
        Some(spec) => Check::ok(
            "guest",
            format!("{what}; to record its kernel through its agent: --guest {spec}"),
        ),
        None => Check::limited(
            "guest",
            format!("{what}; it has no channel for an agent"),
            "to record its kernel, start it with -device vhost-vsock-pci,guest-cid=N or a virtio-serial port",
        ),
    }
}

/// The `--guest` that would reach the VM. Of several ports, one that is named after the agent's
/// (`org.transect.0`) is meant for it.
fn channel(vm: &Vm) -> Option<String> {
    let ours = |name: &Option<String>| name.as_deref().is_some_and(|n| n.contains("transect"));
    let port = || vm.serial_ports.iter().max_by_key(|port| ours(&port.name));
    let serial = || port().map(|port| format!("virtio-serial:{}", port.path.display()));
    let endpoint = vm.vsock_cid.map(|cid| format!("vsock:{cid}")).or_else(serial)?;
    Some(format!("name={},{endpoint}", vm.name))
}
