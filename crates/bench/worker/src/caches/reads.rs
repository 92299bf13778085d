//! Bytes read from devices: by the whole machine, and by the workload's processes.

use procfs::process::Process;
use std::{fs, path::Path};

/// What had been read at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Reads {
    pid: u32,
    at: Read,
}

/// Bytes read from devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// By everybody on this machine, from its disks; `None` where it has none.
    pub machine_bytes: Option<u64>,
    /// By the workload's process and the children that it has waited for; `None` where the kernel keeps no account
    /// (`CONFIG_TASK_IO_ACCOUNTING`).
    pub own_bytes: Option<u64>,
}

impl Read {
    /// What tells most of the workload, and of whom it tells.
    pub(super) fn best(&self) -> Option<(u64, &'static str)> {
        let own = self.own_bytes.map(|bytes| (bytes, "the workload"));
        own.or(self.machine_bytes.map(|bytes| (bytes, "the machine")))
    }
}

impl Reads {
    /// Begins, for the workload's process.
    #[must_use]
    pub fn now(pid: u32) -> Self {
        Self { pid, at: look(pid) }
    }

    /// What was read since then. The process must still be there.
    #[must_use]
    pub fn until_now(&self) -> Read {
        let now = look(self.pid);
        let less = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_sub(b?));
        Read {
            machine_bytes: less(now.machine_bytes, self.at.machine_bytes),
            own_bytes: less(now.own_bytes, self.at.own_bytes),
        }
    }
}

fn look(pid: u32) -> Read {
    Read { machine_bytes: of_machine(Path::new("/sys/block")), own_bytes: of_process(pid) }
}

/// `read_bytes` of `/proc/PID/io`: what reached the block layer (Linux, Documentation/filesystems/proc.rst).
fn of_process(pid: u32) -> Option<u64> {
    Some(Process::new(pid.cast_signed()).ok()?.io().ok()?.read_bytes)
}

/// Sectors of 512 bytes, the third number of each disk's `stat` (Linux, Documentation/block/stat.rst). Devices that are
/// made of others or of memory are left out: what they read, a disk reads too, or nobody does.
fn of_machine(blocks: &Path) -> Option<u64> {
    let disks = fs::read_dir(blocks).ok()?.flatten().map(|entry| entry.path());
    let sectors: Vec<u64> =
        disks.filter(|disk| is_disk(disk)).filter_map(|disk| sectors(&disk)).collect();
    (!sectors.is_empty()).then(|| sectors.iter().sum::<u64>() * 512)
}

fn is_disk(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_virtual = ["loop", "ram", "zram", "dm-", "md"].iter().any(|kind| name.starts_with(kind));
    let is_hidden = fs::read_to_string(path.join("hidden")).is_ok_and(|text| text.trim() == "1");
    let sectors = fs::read_to_string(path.join("size")).unwrap_or_default();
    !is_virtual && !is_hidden && sectors.trim() != "0"
}

fn sectors(disk: &Path) -> Option<u64> {
    fs::read_to_string(disk.join("stat")).ok()?.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_summed_and_what_is_made_of_them_is_not() {
        let folder = tempfile::tempdir().unwrap();
        for (name, size, read) in
            [("vda", "100", "7"), ("sdb", "100", "3"), ("dm-0", "100", "50"), ("sr0", "0", "0")]
        {
            let disk = folder.path().join(name);
            fs::create_dir(&disk).unwrap();
            fs::write(disk.join("size"), format!("{size}\n")).unwrap();
            fs::write(disk.join("stat"), format!("    1 2 {read} 4 5 6 7 8\n")).unwrap();
        }
        assert_eq!(of_machine(folder.path()), Some(10 * 512));
        fs::remove_dir_all(folder.path().join("vda")).unwrap();
        fs::remove_dir_all(folder.path().join("sdb")).unwrap();
        assert_eq!(of_machine(folder.path()), None);
    }
}
