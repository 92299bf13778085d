//! What KVM tells in debugfs: `kvm/PID-FD/vcpuN/{pid,tsc-offset,tsc-scaling-ratio,…}`.
//!
//! Sources: virt/kvm/kvm_main.c (`kvm_create_vm_debugfs`, `kvm_create_vcpu_debugfs`, `pid` since
//! 6.0) and arch/x86/kvm/debugfs.c (the TSC files; the two about scaling exist only where the CPU
//! can scale).

use procfs::{FromRead, MountEntry};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// How a vCPU's TSC follows from the host's:
/// `guest = ((host * ratio) >> frac_bits) + offset`, without ratio `guest = host + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscOffset {
    /// The vCPU.
    pub vcpu: u32,
    /// Ticks added; mostly negative, as the guest's counter starts at its boot.
    pub offset: i64,
    /// Scaling, fixed point; `None` if this CPU cannot scale.
    pub ratio: Option<u64>,
    /// Fractional bits of the ratio: 48 on Intel, 32 on AMD.
    pub frac_bits: Option<u32>,
}

/// The TSC offsets of a VMM process's vCPUs, by number; empty if debugfs does not tell (see
/// [`super::Discovery::notes`]). Cheap enough for once a second: offsets change when the guest
/// writes its TSC or KVM synchronises vCPUs.
pub fn tsc_offsets(pid: i32) -> Vec<TscOffset> {
    tsc_offsets_below(Path::new("/sys/kernel/debug"), pid)
}

pub(super) fn tsc_offsets_below(debugfs: &Path, pid: i32) -> Vec<TscOffset> {
    let mut offsets: Vec<TscOffset> = vcpu_dirs(debugfs, pid)
        .into_iter()
        .filter_map(|(vcpu, dir)| {
            Some(TscOffset {
                vcpu,
                offset: number(&dir.join("tsc-offset"))?,
                ratio: number(&dir.join("tsc-scaling-ratio")),
                frac_bits: number(&dir.join("tsc-scaling-ratio-frac-bits")),
            })
        })
        .collect();
    offsets.sort_unstable_by_key(|offset| offset.vcpu);
    offsets
}

/// The vCPU numbers KVM has for a process.
pub(super) fn vcpus(debugfs: &Path, pid: i32) -> Vec<u32> {
    vcpu_dirs(debugfs, pid).into_iter().map(|(vcpu, _)| vcpu).collect()
}

/// The thread that ran a vCPU last; `None` before its first run and on kernels before 6.0.
pub(super) fn vcpu_tid(debugfs: &Path, pid: i32, vcpu: u32) -> Option<i32> {
    let dir = vcpu_dirs(debugfs, pid).into_iter().find(|(number, _)| *number == vcpu)?.1;
    number::<i32>(&dir.join("pid")).filter(|tid| *tid > 0)
}

fn vcpu_dirs(debugfs: &Path, pid: i32) -> Vec<(u32, PathBuf)> {
    let prefix = format!("{pid}-");
    let vms = entries(&debugfs.join("kvm"))
        .into_iter()
        .filter(|(name, _)| name.strip_prefix(&prefix).is_some_and(|fd| fd.parse::<u32>().is_ok()));
    let vcpus = vms.flat_map(|(_, dir)| entries(&dir));
    vcpus.filter_map(|(name, dir)| Some((name.strip_prefix("vcpu")?.parse().ok()?, dir))).collect()
}

fn entries(dir: &Path) -> Vec<(String, PathBuf)> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
        .collect()
}

fn number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Why KVM's directory cannot be read, with the mend; `None` if it can.
pub(super) fn problem(procfs: &Path, debugfs: &Path) -> Option<String> {
    let kvm = debugfs.join("kvm");
    let what = "TSC offsets and vCPU threads are unknown";
    match fs::read_dir(&kvm) {
        Ok(_) => None,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Some(format!(
            "{}: {error}: {what}; run as root; if it fails again, check for kernel lockdown \
             (/sys/kernel/security/lockdown)",
            kvm.display()
        )),
        Err(_) if !is_mounted(procfs) => Some(format!(
            "debugfs is not mounted: {what}; as root: mount -t debugfs debugfs /sys/kernel/debug"
        )),
        Err(_) => Some(format!(
            "{} is missing: {what}; the KVM of this kernel has no debugfs files",
            kvm.display()
        )),
    }
}

fn is_mounted(procfs: &Path) -> bool {
    let mounts = Vec::<MountEntry>::from_file(procfs.join("self/mounts"));
    mounts.is_ok_and(|mounts| mounts.iter().any(|mount| mount.fs_vfstype == "debugfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(dir: &Path, name: &str, text: &str) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join(name), text).unwrap();
    }

    #[test]
    fn offsets_are_read_as_the_kernel_prints_them() {
        let root = tempfile::tempdir().unwrap();
        let vm = root.path().join("kvm/812-11");
        write(&vm.join("vcpu1"), "tsc-offset", "-7788000000\n");
        write(&vm.join("vcpu0"), "tsc-offset", "-9223372036854775808\n");
        write(&vm.join("vcpu0"), "tsc-scaling-ratio", "4294967296\n");
        write(&vm.join("vcpu0"), "tsc-scaling-ratio-frac-bits", "32\n");
        write(&vm.join("vcpu0"), "pid", "815\n");
        write(&vm.join("vcpu1"), "pid", "0\n");
        write(&root.path().join("kvm/81-2/vcpu7"), "tsc-offset", "1\n");
        let offsets = tsc_offsets_below(root.path(), 812);
        let want = [
            TscOffset { vcpu: 0, offset: i64::MIN, ratio: Some(1 << 32), frac_bits: Some(32) },
            TscOffset { vcpu: 1, offset: -7_788_000_000, ratio: None, frac_bits: None },
        ];
        assert_eq!(offsets, want);
        assert_eq!(vcpu_tid(root.path(), 812, 0), Some(815));
        assert_eq!(vcpu_tid(root.path(), 812, 1), None, "has not run yet");
        assert!(tsc_offsets_below(root.path(), 1).is_empty());
    }
}
