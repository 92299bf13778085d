//! Where control groups are mounted.

use procfs::process::{MountInfo, Process};
use std::path::PathBuf;

/// The mounts that have what is wanted of a group's path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mounts {
    /// The unified hierarchy (version 2).
    pub(super) unified: Option<PathBuf>,
    /// The cpu controller's hierarchy of version 1.
    pub(super) cpu: Option<PathBuf>,
}

impl Mounts {
    /// Does the unified hierarchy have the cpu controller?
    pub(super) fn has_cpu_controller(&self) -> bool {
        let Some(unified) = &self.unified else { return false };
        let all = std::fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default();
        all.split_whitespace().any(|name| name == "cpu")
    }
}

/// Those of this process.
pub(super) fn here() -> Mounts {
    let all = Process::myself().and_then(|own| own.mountinfo());
    find(&all.map_or_else(|_| Vec::new(), |all| all.0))
}

/// Finds them among all mounts; blanks in names are `\040`.
fn find(all: &[MountInfo]) -> Mounts {
    let mut mounts = Mounts::default();
    for mount in all {
        let place = || {
            let place = mount.mount_point.to_string_lossy().replace("\\040", " ");
            Some(PathBuf::from(place))
        };
        match mount.fs_type.as_str() {
            "cgroup2" if mounts.unified.is_none() => mounts.unified = place(),
            "cgroup" if mounts.cpu.is_none() && mount.super_options.contains_key("cpu") => {
                mounts.cpu = place();
            }
            _ => {}
        }
    }
    mounts
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::{FromRead, process::MountInfos};

    #[test]
    fn either_version_or_both() {
        let read = |text: &str| find(&MountInfos::from_read(text.as_bytes()).unwrap().0);
        let v2 = "23 1 0:22 / /sys rw - sysfs sysfs rw\n\
                  30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(read(v2), Mounts { unified: Some("/sys/fs/cgroup".into()), cpu: None });
        let hybrid = "33 31 0:30 / /sys/fs/cgroup/cpu\\040cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let wanted = Mounts {
            unified: Some("/sys/fs/cgroup/unified".into()),
            cpu: Some("/sys/fs/cgroup/cpu cpuacct".into()),
        };
        assert_eq!(read(hybrid), wanted);
        assert_eq!(read(""), Mounts::default());
    }
}
