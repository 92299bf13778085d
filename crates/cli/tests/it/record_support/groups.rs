//! Control groups of the cpu controller, in whichever hierarchy has it.

use std::{fs, path::PathBuf};

/// A control group, removed when the test ends.
pub(crate) struct CpuGroup {
    folder: PathBuf,
    /// Its path in tables.
    pub(crate) path: String,
    is_v1: bool,
}

impl CpuGroup {
    /// None if no group can be made here.
    fn new(name: &str) -> Option<Self> {
        let mounts = procfs::mounts().unwrap();
        let options = |mount: &procfs::MountEntry| mount.fs_mntops.contains_key("cpu");
        let v1 = mounts.iter().find(|mount| mount.fs_vfstype == "cgroup" && options(mount));
        let v2 = mounts.iter().find(|mount| mount.fs_vfstype == "cgroup2");
        let root = PathBuf::from(&v1.or(v2)?.fs_file);
        let path = format!("/transect-{name}-{}", std::process::id());
        let folder = root.join(&path[1..]);
        if v1.is_none() {
            fs::write(root.join("cgroup.subtree_control"), "+cpu").ok()?;
        }
        fs::create_dir(&folder).ok()?;
        Some(CpuGroup { folder, path, is_v1: v1.is_some() })
    }

    /// With a quota per period, µs.
    pub(crate) fn with_quota(name: &str, quota_us: u32, period_us: u32) -> Option<Self> {
        let group = Self::new(name)?;
        if !group.is_v1 {
            group.write("cpu.max", &format!("{quota_us} {period_us}"))?;
            return Some(group);
        }
        // The quota last: one longer than the period needs more CPUs.
        group.write("cpu.cfs_period_us", &period_us.to_string())?;
        group.write("cpu.cfs_quota_us", &quota_us.to_string())?;
        Some(group)
    }

    /// With a weight, on the scale of version 2.
    pub(crate) fn with_weight(name: &str, weight: u32) -> Option<Self> {
        let group = Self::new(name)?;
        match group.is_v1 {
            true => group.write("cpu.shares", &(weight * 1024 / 100).to_string())?,
            false => group.write("cpu.weight", &weight.to_string())?,
        }
        Some(group)
    }

    /// Moves a process into it.
    pub(crate) fn add(&self, pid: u32) {
        fs::write(self.folder.join("cgroup.procs"), pid.to_string()).unwrap();
    }

    /// How long its threads were throttled, ns, by the kernel.
    pub(crate) fn throttled_ns(&self) -> u64 {
        let (name, unit) =
            if self.is_v1 { ("throttled_time", 1) } else { ("throttled_usec", 1_000) };
        let text = fs::read_to_string(self.folder.join("cpu.stat")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse::<u64>().unwrap() * unit
    }

    fn write(&self, file: &str, text: &str) -> Option<()> {
        fs::write(self.folder.join(file), text).ok()
    }
}

impl Drop for CpuGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
