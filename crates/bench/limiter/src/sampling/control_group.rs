//! The workload's control groups: where they are, what they limit, how often they did.

use super::parse;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use transect_bench_core::samples::GroupUse;

/// A controller, by its names in both versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Cpu,
    Memory,
    Io,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    fn v1(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "blkio",
        }
    }

    fn v2(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

/// Where a controller's hierarchy is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// The mount point.
    pub(crate) point: PathBuf,
    root: String,
    /// Version 2?
    pub(crate) is_unified: bool,
}

/// The hierarchies of this machine. On a hybrid one some controllers are in version 1 and others in version 2.
#[derive(Debug, Default)]
pub(crate) struct Hierarchies {
    v1: BTreeMap<String, Hierarchy>,
    v2: Option<(Hierarchy, Vec<String>)>,
}

impl Hierarchies {
    /// Reads this process's mounts.
    pub(crate) fn here() -> io::Result<Self> {
        let mut found = Self::default();
        for mount in parse::mounts(&fs::read("/proc/self/mountinfo")?) {
            let is_unified = mount.controllers.is_empty();
            let point = PathBuf::from(&mount.point);
            let hierarchy = Hierarchy { point, root: mount.root, is_unified };
            if is_unified {
                let enabled = fs::read_to_string(hierarchy.point.join("cgroup.controllers"))?;
                let enabled = enabled.split_ascii_whitespace().map(str::to_owned).collect();
                found.v2.get_or_insert((hierarchy, enabled));
                continue;
            }
            for controller in mount.controllers {
                found.v1.entry(controller).or_insert_with(|| hierarchy.clone());
            }
        }
        Ok(found)
    }

    /// The hierarchy that a controller is in; version 1 where it is mounted, since a controller is in one only.
    pub(crate) fn of(&self, controller: Controller) -> Option<&Hierarchy> {
        self.v1.get(controller.v1()).or_else(|| {
            let (hierarchy, enabled) = self.v2.as_ref()?;
            enabled.iter().any(|name| name == controller.v2()).then_some(hierarchy)
        })
    }

    /// The folder that a process is in, in a controller's hierarchy.
    pub(crate) fn folder(&self, pid: u32, controller: Controller) -> io::Result<Option<PathBuf>> {
        let paths = parse::group_paths(&fs::read(format!("/proc/{pid}/cgroup"))?);
        Ok(self.folder_in(&paths, controller))
    }

    fn folder_in(
        &self,
        paths: &[(Vec<String>, String)],
        controller: Controller,
    ) -> Option<PathBuf> {
        let hierarchy = self.of(controller)?;
        let is_it = |names: &Vec<String>| match hierarchy.is_unified {
            true => names.is_empty(),
            false => names.iter().any(|name| name == controller.v1()),
        };
        let (_, path) = paths.iter().find(|(names, _)| is_it(names))?;
        // In a container the mount shows only a part of the tree, and the path may be of the outer one.
        let inside = path.strip_prefix(hierarchy.root.trim_end_matches('/')).unwrap_or_default();
        Some(hierarchy.point.join(inside.trim_start_matches('/')))
    }
}

/// Control groups that the workload was found in, with those above, and what they had counted then.
#[derive(Debug, Default)]
pub(super) struct Groups {
    hierarchies: Hierarchies,
    known: Vec<(Controller, PathBuf, GroupUse)>,
}

impl Groups {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { hierarchies: Hierarchies::here()?, known: Vec::new() })
    }

    /// Notes the groups of a process, from when on they are counted. A process that is gone has none.
    pub(super) fn notice(&mut self, pid: u32) {
        let Ok(text) = fs::read(format!("/proc/{pid}/cgroup")) else { return };
        let paths = parse::group_paths(&text);
        for controller in Controller::ALL {
            let Some(hierarchy) = self.hierarchies.of(controller) else { continue };
            let is_unified = hierarchy.is_unified;
            let point = hierarchy.point.clone();
            let Some(folder) = self.hierarchies.folder_in(&paths, controller) else { continue };
            for folder in folder.ancestors().take_while(|folder| folder.starts_with(&point)) {
                if self.known.iter().any(|(of, path, _)| *of == controller && path == folder) {
                    break;
                }
                let base = read(controller, folder, is_unified);
                self.known.push((controller, folder.to_owned(), base));
            }
        }
    }

    /// Counts from now on.
    pub(super) fn begin(&mut self) {
        for (controller, folder, base) in &mut self.known {
            let is_unified = self.hierarchies.of(*controller).is_some_and(|found| found.is_unified);
            *base = read(*controller, folder, is_unified);
        }
    }

    /// Those that limit anything or did.
    pub(super) fn end(&self) -> Vec<GroupUse> {
        self.known
            .iter()
            .map(|(controller, folder, base)| {
                let is_unified =
                    self.hierarchies.of(*controller).is_some_and(|found| found.is_unified);
                since(read(*controller, folder, is_unified), base)
            })
            .filter(|group| {
                group.quota_cpus.is_some()
                    || group.throttled_periods > 0
                    || group.memory_limit_bytes.is_some()
                    || !group.io_limits.is_empty()
            })
            .collect()
    }
}

fn since(now: GroupUse, base: &GroupUse) -> GroupUse {
    GroupUse {
        periods: now.periods.saturating_sub(base.periods),
        throttled_periods: now.throttled_periods.saturating_sub(base.throttled_periods),
        throttled_ns: now.throttled_ns.saturating_sub(base.throttled_ns),
        memory_limit_hits: now.memory_limit_hits.saturating_sub(base.memory_limit_hits),
        io: now.io.since(&base.io),
        ..now
    }
}

fn read(controller: Controller, folder: &Path, is_unified: bool) -> GroupUse {
    let text = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
    let mut group = GroupUse { path: folder.display().to_string(), ..GroupUse::default() };
    match (controller, is_unified) {
        (Controller::Cpu, _) => read_cpu(&mut group, &text, is_unified),
        (Controller::Memory, true) => {
            group.memory_limit_bytes = parse::value(&text("memory.max"));
            group.memory_used_bytes = parse::value(&text("memory.current"));
            let events = parse::keyed(&text("memory.events"));
            group.memory_limit_hits =
                ["max", "high"].iter().filter_map(|key| events.get(*key)).sum();
        }
        (Controller::Memory, false) => {
            // "No limit" is the largest multiple of a page (mm/memcontrol-v1.c): far beyond any memory.
            group.memory_limit_bytes = parse::value(&text("memory.limit_in_bytes"))
                .filter(|limit| *limit < u64::MAX / 4096);
            group.memory_used_bytes = parse::value(&text("memory.usage_in_bytes"));
            group.memory_limit_hits = parse::value(&text("memory.failcnt")).unwrap_or(0);
        }
        (Controller::Io, true) => {
            group.io_limits = all_lines(&text("io.max"));
            group.io = parse::io_stat_v2(&text("io.stat"));
        }
        (Controller::Io, false) => {
            let done =
                |of: &str| parse::io_service(&text(&format!("blkio.throttle.{of}_recursive")));
            (group.io.read_bytes, group.io.written_bytes) = done("io_service_bytes");
            (group.io.reads, group.io.writes) = done("io_serviced");
            for name in V1_THROTTLES {
                group.io_limits.extend(
                    all_lines(&text(&format!("blkio.throttle.{name}")))
                        .into_iter()
                        .map(|line| format!("{name} {line}")),
                );
            }
        }
    }
    group
}

/// Files of version 1 that limit a device.
const V1_THROTTLES: [&str; 4] =
    ["read_bps_device", "write_bps_device", "read_iops_device", "write_iops_device"];

fn read_cpu(group: &mut GroupUse, text: &dyn Fn(&str) -> Vec<u8>, is_unified: bool) {
    let stat = parse::keyed(&text("cpu.stat"));
    let of = |key: &str| stat.get(key).copied().unwrap_or(0);
    group.periods = of("nr_periods");
    group.throttled_periods = of("nr_throttled");
    group.throttled_ns = match is_unified {
        true => of("throttled_usec").saturating_mul(1000),
        false => of("throttled_time"),
    };
    group.quota_cpus = match is_unified {
        true => parse::quota_v2(&text("cpu.max")),
        false => {
            let quota = parse::value(&text("cpu.cfs_quota_us"));
            let period = parse::value(&text("cpu.cfs_period_us")).filter(|period| *period > 0);
            quota.zip(period).map(|(quota, period)| quota as f64 / period as f64)
        }
    };
}

fn all_lines(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text).lines().map(str::to_owned).collect()
}
