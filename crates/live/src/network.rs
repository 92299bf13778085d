//! Network devices, and which of them are VMs' doors.

use std::{collections::BTreeMap, fs, path::Path};
use transect_tracefs::Namespaces;

const DEVICES: &str = "/sys/class/net";

/// The host's name, as its kernel has it.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Devices by number, as this process sees them: those of other network namespaces are not among them.
pub(crate) fn devices() -> BTreeMap<u32, String> {
    let Ok(entries) = fs::read_dir(DEVICES) else { return BTreeMap::new() };
    let device = |entry: fs::DirEntry| {
        let number = fs::read_to_string(entry.path().join("ifindex")).ok()?;
        Some((number.trim().parse().ok()?, entry.file_name().to_string_lossy().into_owned()))
    };
    entries.flatten().filter_map(device).collect()
}

/// Is it a tun or tap device?
pub(crate) fn is_tap(name: &str) -> bool {
    Path::new(DEVICES).join(name).join("tun_flags").exists()
}

/// The tap devices that a process has open: `iff:` in its fdinfo (drivers/net/tun.c).
pub(crate) fn taps_of(pid: i32, devices: &BTreeMap<u32, String>) -> Vec<u32> {
    let process = Namespaces::current().procfs().map(|procfs| procfs.join(pid.to_string()));
    let entries = process.and_then(|process| fs::read_dir(process.join("fdinfo")).ok());
    let Some(entries) = entries else { return Vec::new() };
    let texts = entries.flatten().filter_map(|entry| fs::read_to_string(entry.path()).ok());
    let names: Vec<String> = texts.filter_map(|text| tap_in(&text)).collect();
    devices.iter().filter(|(_, name)| names.contains(name)).map(|(number, _)| *number).collect()
}

fn tap_in(fdinfo: &str) -> Option<String> {
    let line = fdinfo.lines().find_map(|line| line.strip_prefix("iff:"))?;
    Some(line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_is_named_in_fdinfo() {
        assert_eq!(tap_in("pos:\t0\nflags:\t0104002\niff:\ttap3\n").as_deref(), Some("tap3"));
        assert_eq!(tap_in("pos:\t0\n"), None);
    }
}
