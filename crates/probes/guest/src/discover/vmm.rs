//! Which process is a VM, of which VMM, and which of its threads are vCPUs.

use super::{
    FoundBy, VcpuThread, Vm,
    cmdline::{QemuLine, cid_of, flag, qemu},
    debugfs, is_vhost_worker,
    process::{KvmFds, Process, Thread},
};
use std::{collections::BTreeMap, path::Path};

/// Programs that run VMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VmmKind {
    /// QEMU, under KVM or emulating.
    Qemu,
    /// Firecracker.
    Firecracker,
    /// Cloud Hypervisor.
    CloudHypervisor,
    /// crosvm.
    Crosvm,
    /// kvmtool (`lkvm`).
    Kvmtool,
    /// Something else that holds KVM descriptors.
    Other,
}

/// How one VMM names itself and its vCPU threads.
struct Habit {
    kind: VmmKind,
    word: &'static str,
    /// File name of the program: equal, or beginning so if it ends in `-`.
    programs: &'static [&'static str],
    /// vCPU threads' names, before and after the number.
    vcpu_thread: (&'static str, &'static str),
}

/// Thread names: QEMU accel/kvm/kvm-accel-ops.c and accel/tcg/tcg-accel-ops-mttcg.c; Firecracker
/// vmm/src/vstate/vcpu.rs; Cloud Hypervisor vmm/src/cpu.rs; crosvm src/crosvm/sys/linux/vcpu.rs;
/// kvmtool builtin-run.c.
const HABITS: &[Habit] = &[
    Habit {
        kind: VmmKind::Qemu,
        word: "qemu",
        programs: &["qemu-system-", "qemu-kvm", "kvm"],
        vcpu_thread: ("CPU ", "/KVM"),
    },
    Habit { kind: VmmKind::Qemu, word: "qemu", programs: &[], vcpu_thread: ("CPU ", "/TCG") },
    Habit {
        kind: VmmKind::Firecracker,
        word: "firecracker",
        programs: &["firecracker"],
        vcpu_thread: ("fc_vcpu ", ""),
    },
    Habit {
        kind: VmmKind::CloudHypervisor,
        word: "cloud-hypervisor",
        programs: &["cloud-hypervisor", "cloud-hyperviso"],
        vcpu_thread: ("vcpu", ""),
    },
    Habit {
        kind: VmmKind::Crosvm,
        word: "crosvm",
        programs: &["crosvm"],
        vcpu_thread: ("crosvm_vcpu", ""),
    },
    Habit {
        kind: VmmKind::Kvmtool,
        word: "kvmtool",
        programs: &["lkvm", "lkvm-static", "vm"],
        vcpu_thread: ("kvm-vcpu-", ""),
    },
];

impl VmmKind {
    /// The word used in names and reports.
    pub fn as_str(self) -> &'static str {
        HABITS.iter().find(|habit| habit.kind == self).map_or("vmm", |habit| habit.word)
    }

    fn of(process: &Process) -> Option<Self> {
        let is_program = |name: &str, program: &&str| {
            name == *program || (program.ends_with('-') && name.starts_with(program))
        };
        // Interpreters and wrappers hide the program; the name of the process then tells.
        let names = [process.exe.as_str(), process.comm.as_str()];
        let habit = HABITS.iter().find(|habit| {
            habit.programs.iter().any(|program| names.iter().any(|name| is_program(name, program)))
        });
        habit.map(|habit| habit.kind)
    }
}

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

fn vcpu_of_name(comm: &str) -> Option<u32> {
    HABITS.iter().find_map(|habit| {
        let (before, after) = habit.vcpu_thread;
        comm.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
    })
}

fn vhost_workers(process: &Process, all: &[Process], threads: &[Thread]) -> Vec<i32> {
    let name = format!("vhost-{}", process.pid);
    let inside = threads.iter().filter(|thread| thread.comm == name).map(|thread| thread.tid);
    let kernel = all.iter().filter(|other| is_vhost_worker(other, process.pid));
    inside.chain(kernel.map(|other| other.pid)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vmms_vcpu_threads_are_known() {
        for (comm, vcpu) in [
            ("CPU 3/KVM", Some(3)),
            ("CPU 0/TCG", Some(0)),
            ("fc_vcpu 12", Some(12)),
            ("vcpu1", Some(1)),
            ("crosvm_vcpu0", Some(0)),
            ("kvm-vcpu-2", Some(2)),
            ("qemu-system-x86", None),
            ("vcpux", None),
            ("CPU 1/", None),
        ] {
            assert_eq!(vcpu_of_name(comm), vcpu, "{comm}");
        }
    }

    #[test]
    fn names_are_fit_for_files() {
        assert_eq!(tidy("web 1/../x"), "web_1_.._x");
        assert_eq!(tidy(".hidden"), "_hidden");
        assert_eq!(tidy(&"x".repeat(99)).len(), 64);
    }
}
