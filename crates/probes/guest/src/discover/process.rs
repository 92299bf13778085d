//! Processes and threads as procfs tells them.

use procfs::{ProcessCGroup, ProcessCGroups};
use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// The link of the initial cgroup namespace (`PROC_CGROUP_INIT_INO`, include/linux/proc_ns.h).
const INITIAL_CGROUP: &str = "cgroup:[4026531835]";

/// One process.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) start_ticks: u64,
    pub(super) comm: String,
    /// File name of the executable, empty for kernel threads and where it cannot be read.
    pub(super) exe: String,
    pub(super) args: Vec<String>,
    dir: PathBuf,
}

/// A thread of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thread {
    pub(super) tid: i32,
    pub(super) comm: String,
}

/// KVM descriptors a process holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KvmFds {
    /// Descriptor numbers of its VMs: part of their directory's name in debugfs.
    pub(super) vms: Vec<i32>,
    /// vCPU numbers.
    pub(super) vcpus: Vec<u32>,
}

/// Every process, by pid.
pub(super) fn all(procfs: &Path) -> Vec<Process> {
    let mut pids = numbered(procfs);
    pids.sort_unstable();
    pids.into_iter().filter_map(|pid| read(procfs, pid)).collect()
}

/// One process.
pub(super) fn read(procfs: &Path, pid: i32) -> Option<Process> {
    let dir = procfs.join(pid.to_string());
    let process = procfs::process::Process::new_with_root(dir.clone()).ok()?;
    let stat = process.stat().ok()?;
    let args = fs::read(dir.join("cmdline")).unwrap_or_default();
    let exe = process.exe().ok();
    let exe = exe.as_deref().and_then(Path::file_name).map(lossy).unwrap_or_default();
    Some(Process {
        pid,
        start_ticks: stat.starttime,
        comm: stat.comm,
        // A VMM whose package was upgraded under it runs on.
        exe: exe.trim_end_matches(" (deleted)").to_owned(),
        args: split_args(&args),
        dir,
    })
}

impl Process {
    /// Its threads, by tid.
    pub(super) fn threads(&self) -> Vec<Thread> {
        let tasks = self.dir.join("task");
        let mut tids = numbered(&tasks);
        tids.sort_unstable();
        let thread = |tid: i32| Some(Thread { tid, comm: comm(&tasks.join(tid.to_string()))? });
        tids.into_iter().filter_map(thread).collect()
    }

    /// The KVM descriptors it holds. Empty if it holds none or they cannot be seen (not root).
    pub(super) fn kvm_fds(&self) -> KvmFds {
        let dir = self.dir.join("fd");
        let mut found = KvmFds::default();
        for fd in numbered(&dir) {
            let Ok(target) = fs::read_link(dir.join(fd.to_string())) else { continue };
            match target.as_os_str().as_bytes().strip_prefix(b"anon_inode:") {
                Some(b"kvm-vm") => found.vms.push(fd),
                Some(name) => found.vcpus.extend(vcpu_number(name)),
                None => {}
            }
        }
        found.vms.sort_unstable();
        found.vcpus.sort_unstable();
        found
    }

    /// Its control group: the unified hierarchy's, else the cpu controller's, if it is not the root. None inside a
    /// cgroup namespace, in which procfs shows paths relative to the namespace's root.
    pub(super) fn cgroup(&self) -> Option<String> {
        let is_relative = fs::read_link(self.dir.with_file_name("self/ns/cgroup"))
            .is_ok_and(|link| link != Path::new(INITIAL_CGROUP));
        if is_relative {
            return None;
        }
        let process = procfs::process::Process::new_with_root(self.dir.clone()).ok()?;
        cgroup_path(&process.cgroups().ok()?)
    }
}

/// `kvm-vcpu:3` → 3 (virt/kvm/kvm_main.c, create_vcpu_fd; kernels before 4.13 leave the number out).
fn vcpu_number(name: &[u8]) -> Option<u32> {
    std::str::from_utf8(name).ok()?.strip_prefix("kvm-vcpu:")?.parse().ok()
}

fn numbered(dir: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn comm(dir: &Path) -> Option<String> {
    let comm = fs::read(dir.join("comm")).ok()?;
    Some(String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned())
}

fn lossy(name: &OsStr) -> String {
    name.to_string_lossy().into_owned()
}

fn split_args(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

fn cgroup_path(groups: &ProcessCGroups) -> Option<String> {
    let path = |is_wanted: &dyn Fn(&[String]) -> bool| {
        let wanted =
            |group: &&ProcessCGroup| is_wanted(&group.controllers) && group.pathname != "/";
        groups.0.iter().find(wanted).map(|group| group.pathname.clone())
    };
    path(&<[String]>::is_empty).or_else(|| path(&|list| list.iter().any(|name| name == "cpu")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    #[test]
    fn this_process_is_found_with_its_threads() {
        let me = i32::try_from(std::process::id()).unwrap();
        let found = all(Path::new("/proc")).into_iter().find(|process| process.pid == me).unwrap();
        assert!(!found.args.is_empty() && !found.exe.is_empty() && found.start_ticks > 0);
        assert!(found.threads().iter().any(|thread| thread.tid == me));
        assert_eq!(found.kvm_fds(), KvmFds::default());
    }

    #[test]
    fn odd_texts_are_read() {
        assert_eq!(vcpu_number(b"kvm-vcpu:12"), Some(12));
        assert_eq!(vcpu_number(b"kvm-vcpu"), None);
        assert_eq!(split_args(b"a\0\0b\0"), ["a", "", "b"]);
        assert_eq!(split_args(b""), [""; 0]);
        let v1 = "5:cpu,cpuacct:/machine/x\n0::/\n";
        let path = |text: &str| cgroup_path(&ProcessCGroups::from_read(text.as_bytes()).unwrap());
        assert_eq!(path(v1).as_deref(), Some("/machine/x"));
        assert_eq!(path("0::/a:b\n").as_deref(), Some("/a:b"));
        assert_eq!(path("0::/\n"), None);
    }
}
