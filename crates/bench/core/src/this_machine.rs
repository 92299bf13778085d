//! The machine that this is called on: what of it this process may use, and less of it.

use crate::refusal::{Fault, Kind, Refusal};
use procfs::{CpuInfo, Current, Meminfo, process::Process};
use rustix::{
    io::Errno,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};
use std::{fs, path::Path};

/// CPUs that this thread may run on, ascending.
pub fn cpus() -> rustix::io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(all.filter(|cpu| set.is_set(*cpu)).filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// `MemTotal`, or the control group's limit where that is less.
pub fn memory_bytes() -> std::io::Result<u64> {
    let total = Meminfo::current().map_err(std::io::Error::other)?.mem_total;
    Ok(group_limit().map_or(total, |limit| limit.min(total)))
}

/// The least memory limit of the control groups that this process is in, of both versions of them.
fn group_limit() -> Option<u64> {
    let groups = Process::myself().ok()?.cgroups().ok()?;
    let limits = groups.into_iter().filter_map(|group| {
        let (roots, file): (&[&str], &str) = match &group.controllers[..] {
            [] => (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max"),
            controllers if controllers.iter().any(|one| one == "memory") => {
                (&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes")
            }
            _ => return None,
        };
        roots.iter().filter_map(|root| least(Path::new(root), &group.pathname, file)).min()
    });
    limits.min()
}

/// The least of the limits from a group up to the root.
fn least(root: &Path, path: &str, file: &str) -> Option<u64> {
    let group = root.join(path.trim_start_matches('/'));
    let upwards = group.ancestors().take_while(|folder| folder.starts_with(root));
    // "max" is no number, and no limit.
    upwards
        .filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok())
        .min()
}

/// What `/proc/cpuinfo` has of this name for the first CPU.
pub fn cpuinfo(name: &str) -> Option<String> {
    CpuInfo::current().ok()?.get_field(0, name).map(str::to_owned)
}

/// Restricts this process, and what it starts, to CPUs; to none in particular if there are none.
pub fn pin(cpus: &[u32]) -> Result<(), Fault> {
    if cpus.is_empty() {
        return Ok(());
    }
    let refused = |why: String| Refusal::new(Kind::NotHere, format!("CPUs {cpus:?}"), why);
    let mut set = CpuSet::new();
    for cpu in cpus {
        let cpu = usize::try_from(*cpu).ok().filter(|cpu| *cpu < CpuSet::MAX_CPU);
        set.set(
            cpu.ok_or_else(|| refused(format!("a CPU set has at most {} CPUs", CpuSet::MAX_CPU)))?,
        );
    }
    match sched_setaffinity(None, &set) {
        Ok(()) => {}
        Err(Errno::INVAL) => {
            return Err(refused("this machine may use none of them".into()).into());
        }
        Err(error) => return Err(Fault::failed(format!("cannot pin to CPUs {cpus:?}: {error}"))),
    }
    // The kernel takes what there is of them without a word (Linux, kernel/sched/core.c).
    let got = self::cpus().map_err(|error| Fault::failed(format!("affinity: {error}")))?;
    let mut wanted = cpus.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    if got != wanted {
        return Err(refused(format!("only {got:?} are available")).into());
    }
    Ok(())
}

/// Restricts this process, and what it starts, to the first CPU that it may use.
pub fn pin_to_first() -> Result<(), Fault> {
    let cpus = cpus().map_err(|error| Fault::failed(format!("affinity: {error}")))?;
    pin(&cpus[..cpus.len().min(1)])
}
