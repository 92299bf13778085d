//! What control groups are limited to, from the files of their hierarchies.
//!
//! A group is named by its path, as threads have it ([`crate::threads::ThreadFacts::cgroup`]). In version 2, all files
//! are in one folder. In version 1, each controller has a hierarchy of its own; a group there is the folder with the
//! same path in each of them, which is how systemd and container engines make groups. Version 1 has no `memory.high`,
//! and its `cpu.shares` and `blkio.weight` have other scales than the weights of version 2, so they are left out.

use procfs::process::{MountInfo, Process};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};
use transect_model::setting::{CgroupSettings, MAX_CGROUPS, checked_cpu_list};

/// A control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupFacts {
    /// Its path below the mount: `/`, `/system.slice/a.service`.
    pub path: String,
    /// Its limits.
    pub settings: CgroupSettings,
}

/// The control groups that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroups {
    /// In order of their paths.
    pub groups: Vec<CgroupFacts>,
    /// Groups beyond [`MAX_CGROUPS`], which were not read.
    pub left_out: usize,
}

/// Reads the groups of these paths and all groups above them. A group that is gone is left out.
pub fn read<'p>(paths: impl IntoIterator<Item = &'p str>) -> Cgroups {
    read_below(&Mounts::current(), paths)
}

fn read_below<'p>(mounts: &Mounts, paths: impl IntoIterator<Item = &'p str>) -> Cgroups {
    let mut wanted = BTreeSet::new();
    for path in paths.into_iter().filter(|path| is_whole(path)) {
        for group in Path::new(path).ancestors().filter_map(Path::to_str) {
            if !wanted.insert(group) {
                // Those above are there as well.
                break;
            }
        }
    }
    let left_out = wanted.len().saturating_sub(MAX_CGROUPS);
    let groups = wanted.into_iter().take(MAX_CGROUPS);
    Cgroups { groups: groups.filter_map(|path| mounts.read(path)).collect(), left_out }
}

/// Is it a path from the root of the hierarchy? Those of processes outside of a namespace's root begin with `/..`.
fn is_whole(path: &str) -> bool {
    path.starts_with('/') && path.split('/').all(|part| part != "..")
}

/// Where hierarchies are mounted from their roots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Mounts {
    /// Version 2.
    unified: Option<PathBuf>,
    /// Version 1, by controller.
    cpu: Option<PathBuf>,
    cpuset: Option<PathBuf>,
    memory: Option<PathBuf>,
}

impl Mounts {
    fn current() -> Self {
        let all = Process::myself().and_then(|own| own.mountinfo());
        Self::find(&all.map_or_else(|_| Vec::new(), |all| all.0))
    }

    fn find(all: &[MountInfo]) -> Self {
        let mut mounts = Mounts::default();
        // A mount of a part of a hierarchy has another root.
        for mount in all.iter().filter(|mount| mount.root == "/") {
            let point = PathBuf::from(mount.mount_point.to_string_lossy().replace("\\040", " "));
            let has = |controller| mount.super_options.contains_key(controller);
            match mount.fs_type.as_str() {
                "cgroup2" => _ = mounts.unified.get_or_insert(point),
                "cgroup" => {
                    // `cpu` and others are often one hierarchy.
                    for (place, controller) in [
                        (&mut mounts.cpu, "cpu"),
                        (&mut mounts.cpuset, "cpuset"),
                        (&mut mounts.memory, "memory"),
                    ] {
                        if has(controller) {
                            place.get_or_insert_with(|| point.clone());
                        }
                    }
                }
                _ => {}
            }
        }
        mounts
    }

    /// The group of this path; none if no hierarchy has it.
    fn read(&self, path: &str) -> Option<CgroupFacts> {
        let group = |mount: &Option<PathBuf>| {
            Some(Folder(mount.as_ref()?.join(path.trim_start_matches('/'))))
        };
        let mounts = [&self.unified, &self.cpu, &self.cpuset, &self.memory];
        if !mounts.into_iter().filter_map(group).any(|folder| folder.0.is_dir()) {
            return None;
        }
        let mut settings = CgroupSettings::default();
        if let Some(folder) = group(&self.unified) {
            (settings.cpu_quota_ns, settings.cpu_period_ns) = folder.cpu_max();
            settings.cpu_weight = folder.number("cpu.weight");
            settings.cpus = folder.cpus("cpuset.cpus.effective");
            settings.memory_max_bytes = folder.number("memory.max");
            settings.memory_high_bytes = folder.number("memory.high");
            settings.io_weight = folder.io_weight();
        }
        if let Some(folder) = group(&self.cpu).filter(|_| settings.cpu_period_ns.is_none()) {
            // Without a quota, it is -1.
            settings.cpu_quota_ns = folder.number("cpu.cfs_quota_us").and_then(ns_from_us);
            settings.cpu_period_ns = folder.number("cpu.cfs_period_us").and_then(ns_from_us);
        }
        if let Some(folder) = group(&self.cpu).filter(|_| settings.cpu_weight.is_none()) {
            // The root's is the same for all, and means nothing.
            let shares = folder.number("cpu.shares").filter(|_| path != "/");
            settings.cpu_weight = shares.map(weight_from_shares);
        }
        if let Some(folder) = group(&self.cpuset).filter(|_| settings.cpus.is_none()) {
            settings.cpus = folder.cpus("cpuset.effective_cpus");
        }
        if let Some(folder) = group(&self.memory).filter(|_| settings.memory_max_bytes.is_none()) {
            // Without a limit, it is the largest number of whole pages.
            let limit = folder.number("memory.limit_in_bytes");
            settings.memory_max_bytes = limit.filter(|bytes| *bytes < 1 << 62);
        }
        Some(CgroupFacts { path: path.to_owned(), settings })
    }
}

/// A control group's folder in one hierarchy.
struct Folder(PathBuf);

impl Folder {
    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.0.join(file)).ok()
    }

    /// A number; none for `max` and all other words.
    fn number(&self, file: &str) -> Option<u64> {
        self.text(file)?.trim().parse().ok()
    }

    fn cpus(&self, file: &str) -> Option<String> {
        checked_cpu_list(&self.text(file)?)
    }

    /// Quota and period: `max 100000`, `20000 100000`.
    fn cpu_max(&self) -> (Option<i64>, Option<i64>) {
        let Some(text) = self.text("cpu.max") else { return (None, None) };
        let mut words = text.split_whitespace().map(|word| word.parse().ok().and_then(ns_from_us));
        (words.next().flatten(), words.next().flatten())
    }

    /// `default 100`, and then lines for devices.
    fn io_weight(&self) -> Option<u64> {
        let text = self.text("io.weight")?;
        text.lines().find_map(|line| line.strip_prefix("default "))?.trim().parse().ok()
    }
}

/// What `cpu.weight` would be (`cpu_weight_read_u64`, kernel/sched/core.c).
fn weight_from_shares(shares: u64) -> u64 {
    shares.saturating_mul(100).saturating_add(512) / 1024
}

fn ns_from_us(us: u64) -> Option<i64> {
    i64::try_from(us).ok()?.checked_mul(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::{FromRead, process::MountInfos};

    fn mounts(text: &str) -> Mounts {
        Mounts::find(&MountInfos::from_read(text.as_bytes()).unwrap().0)
    }

    /// Makes a group's folder with these files.
    fn make(root: &Path, path: &str, files: &[(&str, &str)]) {
        let folder = root.join(path);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    #[test]
    fn hierarchies_are_found_by_their_mounts() {
        let v2 = "23 1 0:22 / /sys rw - sysfs sysfs rw\n\
                  29 23 0:27 /../.. /mnt rw - cgroup2 cgroup2 rw\n\
                  30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(
            mounts(v2),
            Mounts { unified: Some("/sys/fs/cgroup".into()), ..Mounts::default() }
        );
        let hybrid = "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";
        let wanted = Mounts {
            unified: Some("/sys/fs/cgroup/unified".into()),
            cpu: Some("/sys/fs/cgroup/cpu,cpuacct".into()),
            cpuset: Some("/sys/fs/cgroup/cpuset".into()),
            memory: Some("/sys/fs/cgroup/memory".into()),
        };
        assert_eq!(mounts(hybrid), wanted);
    }

    #[test]
    fn version_2_has_everything_in_one_folder() {
        let root = tempfile::tempdir().unwrap();
        make(root.path(), "", &[("cpuset.cpus.effective", "0-7\n")]);
        make(
            root.path(),
            "machine.slice",
            &[("cpu.weight", "100\n"), ("cpu.max", "max 100000\n"), ("memory.max", "max\n")],
        );
        make(
            root.path(),
            "machine.slice/vm",
            &[
                ("cpu.weight", "300\n"),
                ("cpu.max", "20000 50000\n"),
                ("cpuset.cpus.effective", "0-3,8\n"),
                ("memory.max", "1073741824\n"),
                ("memory.high", "536870912\n"),
                ("io.weight", "default 50\n8:0 200\n"),
            ],
        );
        let mounts = Mounts { unified: Some(root.path().to_owned()), ..Mounts::default() };
        let paths = ["/machine.slice/vm", "/gone", "/../outside", "/machine.slice/vm"];
        let read = read_below(&mounts, paths);
        let group = |path: &str, settings| CgroupFacts { path: path.to_owned(), settings };
        let expected = [
            group(
                "/",
                CgroupSettings { cpus: Some("0-7".to_owned()), ..CgroupSettings::default() },
            ),
            group(
                "/machine.slice",
                CgroupSettings {
                    cpu_weight: Some(100),
                    cpu_period_ns: Some(100_000_000),
                    ..CgroupSettings::default()
                },
            ),
            group(
                "/machine.slice/vm",
                CgroupSettings {
                    cpu_weight: Some(300),
                    cpu_quota_ns: Some(20_000_000),
                    cpu_period_ns: Some(50_000_000),
                    cpus: Some("0-3,8".to_owned()),
                    memory_max_bytes: Some(1 << 30),
                    memory_high_bytes: Some(1 << 29),
                    io_weight: Some(50),
                },
            ),
        ];
        assert_eq!((read.groups.as_slice(), read.left_out), (&expected[..], 0));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_each_controller() {
        let root = tempfile::tempdir().unwrap();
        let [cpu, cpuset, memory, unified] =
            ["cpu", "cpuset", "memory", "unified"].map(|name| root.path().join(name));
        make(&cpu, "", &[("cpu.shares", "1024\n")]);
        make(
            &cpu,
            "a",
            &[
                ("cpu.cfs_quota_us", "-1\n"),
                ("cpu.cfs_period_us", "100000\n"),
                ("cpu.shares", "3072\n"),
            ],
        );
        make(&cpu, "b", &[("cpu.cfs_quota_us", "5000\n"), ("cpu.cfs_period_us", "10000\n")]);
        make(&cpuset, "b", &[("cpuset.effective_cpus", "1\n")]);
        make(&memory, "a", &[("memory.limit_in_bytes", "9223372036854771712\n")]);
        make(&memory, "b", &[("memory.limit_in_bytes", "4096\n")]);
        make(&unified, "", &[]);
        let mounts = Mounts {
            unified: Some(unified),
            cpu: Some(cpu),
            cpuset: Some(cpuset),
            memory: Some(memory),
        };
        let read = read_below(&mounts, ["/a", "/b"]).groups;
        let settings: Vec<_> = read.into_iter().map(|group| (group.path, group.settings)).collect();
        let a = CgroupSettings {
            cpu_weight: Some(300),
            cpu_period_ns: Some(100_000_000),
            ..CgroupSettings::default()
        };
        let b = CgroupSettings {
            cpu_quota_ns: Some(5_000_000),
            cpu_period_ns: Some(10_000_000),
            cpus: Some("1".to_owned()),
            memory_max_bytes: Some(4096),
            ..CgroupSettings::default()
        };
        let expected = [("/", CgroupSettings::default()), ("/a", a), ("/b", b)];
        assert_eq!(settings, expected.map(|(path, settings)| (path.to_owned(), settings)));
    }

    #[test]
    fn more_groups_than_the_bound_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let mounts = Mounts { unified: Some(root.path().to_owned()), ..Mounts::default() };
        let paths: Vec<String> = (0..MAX_CGROUPS + 9).map(|group| format!("/{group}")).collect();
        // With the root.
        assert_eq!(read_below(&mounts, paths.iter().map(String::as_str)).left_out, 10);
    }
}
