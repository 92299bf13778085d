//! Who the worker is.

use super::{Own, WorkerError, hashes::Hashes};
use crate::protocol::{PROTOCOL, WorkerFacts};
use rustix::{system::uname, thread::sched_getaffinity};
use std::{collections::BTreeMap, fs, path::Path};

/// Looks at the machine.
pub(crate) fn look(own: &Own, hashes: &mut Hashes) -> Result<WorkerFacts, WorkerError> {
    let binary = hashes.of(&own.program);
    let name = uname();
    let parts = [name.sysname(), name.release(), name.version(), name.machine()];
    Ok(WorkerFacts {
        protocol: PROTOCOL,
        binary_sha256: binary.map_err(WorkerError::system("read the worker's own program"))?,
        kernel: parts.map(|part| part.to_string_lossy().into_owned()).join(" "),
        cpus: cpus().map_err(WorkerError::system("read its own CPU affinity"))?,
        memory_bytes: memory_bytes().map_err(WorkerError::system("read /proc/meminfo"))?,
        notes: notes(),
    })
}

/// CPUs that this thread may run on, ascending.
pub(crate) fn cpus() -> rustix::io::Result<Vec<u32>> {
    let set = sched_getaffinity(None)?;
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    Ok(all.filter(|cpu| set.is_set(*cpu)).filter_map(|cpu| u32::try_from(cpu).ok()).collect())
}

/// `MemTotal`, or the control group's limit where that is less.
pub(crate) fn memory_bytes() -> std::io::Result<u64> {
    let total = meminfo("MemTotal:")?;
    Ok(group_limit().map_or(total, |limit| limit.min(total)))
}

/// A line of `/proc/meminfo`, in bytes.
pub(crate) fn meminfo(line: &str) -> std::io::Result<u64> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let found = text.lines().find_map(|found| found.strip_prefix(line));
    let kib = found.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024)
        .ok_or_else(|| std::io::Error::other(format!("/proc/meminfo has no {line}")))
}

/// The least memory limit of the control groups that this process is in, of both versions of them.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (roots, file): (&[&str], &str) = match controllers {
            "" => (&["/sys/fs/cgroup", "/sys/fs/cgroup/unified"], "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (&["/sys/fs/cgroup/memory"], "memory.limit_in_bytes")
            }
            _ => return None,
        };
        roots.iter().filter_map(|root| least(Path::new(root), path, file)).min()
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

fn notes() -> BTreeMap<String, String> {
    let mut notes = BTreeMap::new();
    let mut note = |name: &str, path: &str| {
        let text = fs::read_to_string(path).map_or("absent".into(), |text| text.trim().to_owned());
        notes.insert(name.to_owned(), text);
    };
    note("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
    note("governor", "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    note("smt", "/sys/devices/system/cpu/smt/control");
    note("transparent_hugepages", "/sys/kernel/mm/transparent_hugepage/enabled");
    note("hypervisor_type", "/sys/hypervisor/type");
    note("command_line", "/proc/cmdline");
    for entry in fs::read_dir("/sys/devices/system/cpu/vulnerabilities").into_iter().flatten() {
        let Ok(entry) = entry else { continue };
        let name = format!("mitigation_{}", entry.file_name().to_string_lossy());
        note(&name, &entry.path().to_string_lossy());
    }
    notes.insert("cpu_model".into(), cpuinfo("model name").unwrap_or("absent".into()));
    let flags = cpuinfo("flags").unwrap_or_default();
    let is_guest = flags.split(' ').any(|flag| flag == "hypervisor");
    notes.insert("hypervisor_flag".into(), is_guest.to_string());
    notes.insert("page_bytes".into(), rustix::param::page_size().to_string());
    notes
}

/// The first line of this name in `/proc/cpuinfo`.
pub(crate) fn cpuinfo(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}
