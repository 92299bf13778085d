//! The VMMs that are known, and the names of their programs and vCPU threads.

use super::process::Process;

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

    pub(super) fn of(process: &Process) -> Option<Self> {
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

/// The vCPU that a thread of this name runs.
pub(super) fn vcpu_of_name(comm: &str) -> Option<u32> {
    HABITS.iter().find_map(|habit| {
        let (before, after) = habit.vcpu_thread;
        comm.strip_prefix(before)?.strip_suffix(after)?.parse().ok()
    })
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
}
