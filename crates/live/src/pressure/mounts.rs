//! Where control groups are mounted.

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

/// From `/proc/self/mounts`: device, place, type, options, two numbers; blanks in names are `\040`.
pub(super) fn read(text: &str) -> Mounts {
    let mut mounts = Mounts::default();
    for line in text.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(place), Some(kind), Some(options)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let place = || Some(PathBuf::from(place.replace("\\040", " ")));
        match kind {
            "cgroup2" if mounts.unified.is_none() => mounts.unified = place(),
            "cgroup" if mounts.cpu.is_none() && options.split(',').any(|o| o == "cpu") => {
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

    #[test]
    fn either_version_or_both() {
        let v2 = "sysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n";
        assert_eq!(read(v2), Mounts { unified: Some("/sys/fs/cgroup".into()), cpu: None });
        let hybrid = "cgroup /sys/fs/cgroup/cpu\\040cpuacct cgroup rw,cpu,cpuacct 0 0\n\
                      cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let wanted = Mounts {
            unified: Some("/sys/fs/cgroup/unified".into()),
            cpu: Some("/sys/fs/cgroup/cpu cpuacct".into()),
        };
        assert_eq!(read(hybrid), wanted);
        assert_eq!(read("garbage\n\n"), Mounts::default());
    }
}
