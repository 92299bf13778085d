//! Who the worker is.

use super::{WorkerError, hashes::Hashes, own::Own};
use rustix::system::uname;
use std::{collections::BTreeMap, fs};
use transect_bench_core::{
    protocol::{PROTOCOL, WorkerFacts},
    this_machine::{cpuinfo, cpus, memory_bytes},
};

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
