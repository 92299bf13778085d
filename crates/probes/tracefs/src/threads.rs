//! Threads as procfs shows them, under the ids that events carry.
//!
//! Inside a pid namespace without a procfs of the initial one, nothing is known of any thread: an id there belongs to
//! another thread than the same id in events ([`crate::namespaces`]).

use crate::namespaces::{Namespaces, numbered};
use procfs::{ProcessCGroups, process::Process};
use std::{fs, path::Path, time::Duration};

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Thread id.
    pub tid: i32,
    /// Its process.
    pub pid: i32,
    /// Its name.
    pub comm: String,
    /// The control group of its process (cgroup v2 path, else the cpu controller's).
    pub cgroup: Option<String>,
}

/// Lists every thread alive now. Threads that end meanwhile are left out.
pub fn all() -> Vec<ThreadFacts> {
    list_threads(Namespaces::current())
}

fn list_threads(namespaces: &Namespaces) -> Vec<ThreadFacts> {
    let Some(procfs) = namespaces.procfs() else { return Vec::new() };
    let mut threads = Vec::new();
    for pid in numbered(procfs) {
        let cgroup = namespaces.procfs_of_cgroups().and_then(|procfs| read_cgroup(procfs, pid));
        let tasks = procfs.join(pid.to_string()).join("task");
        for tid in numbered(&tasks) {
            let Some(comm) = read_comm(&tasks.join(tid.to_string())) else { continue };
            let comm = String::from_utf8_lossy(&comm).into_owned();
            threads.push(ThreadFacts { tid, pid, comm, cgroup: cgroup.clone() });
        }
    }
    threads
}

/// For how long, at least, a thread has existed; none if it is gone.
pub fn age(thread: &ThreadFacts) -> Option<Duration> {
    let task = Namespaces::current().procfs()?.join(thread.pid.to_string()).join("task");
    let stat = Process::new_with_root(task.join(thread.tid.to_string())).ok()?.stat().ok()?;
    // The start is the time since boot, suspends included, in whole ticks (fs/proc/array.c, do_task_stat).
    let born_ticks = stat.starttime + 1;
    let per_second = rustix::param::clock_ticks_per_second().max(1);
    let born = Duration::from_secs(born_ticks / per_second)
        + Duration::from_secs(born_ticks % per_second) / u32::try_from(per_second).ok()?;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::new(u64::try_from(now.tv_sec).ok()?, u32::try_from(now.tv_nsec).ok()?);
    Some(now.saturating_sub(born))
}

/// Lists the names of all threads, as the kernel has them.
pub(crate) fn list_names() -> Vec<(i32, Vec<u8>)> {
    let Some(procfs) = Namespaces::current().procfs() else { return Vec::new() };
    let mut names = Vec::new();
    for pid in numbered(procfs) {
        let tasks = procfs.join(pid.to_string()).join("task");
        let named = |tid: i32| Some((tid, read_comm(&tasks.join(tid.to_string()))?));
        names.extend(numbered(&tasks).into_iter().filter_map(named));
    }
    names
}

/// The name of a thread; none if the thread is gone.
pub fn name_of(tid: i32) -> Option<String> {
    let comm = read_comm(&Namespaces::current().procfs()?.join(tid.to_string()))?;
    Some(String::from_utf8_lossy(&comm).into_owned())
}

/// The process that a thread belongs to; none if the thread is gone.
pub fn process_of(tid: i32) -> Option<i32> {
    let status = Namespaces::current().procfs()?.join(tid.to_string()).join("status");
    let status = fs::read_to_string(status).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Does a process exist? None if that cannot be determined.
pub fn exists(pid: i32) -> Option<bool> {
    Some(Namespaces::current().procfs()?.join(pid.to_string()).exists())
}

/// The control group of a process: see [`ThreadFacts::cgroup`]. None if the process is gone.
pub fn cgroup_of(pid: i32) -> Option<String> {
    read_cgroup(Namespaces::current().procfs_of_cgroups()?, pid)
}

fn read_cgroup(procfs: &Path, pid: i32) -> Option<String> {
    cgroup_path(&Process::new_with_root(procfs.join(pid.to_string())).ok()?.cgroups().ok()?)
}

fn read_comm(thread: &Path) -> Option<Vec<u8>> {
    let mut comm = fs::read(thread.join("comm")).ok()?;
    comm.pop_if(|last| *last == b'\n');
    Some(comm)
}

/// The path in the unified hierarchy if it says anything, else the one of the cpu controller.
fn cgroup_path(groups: &ProcessCGroups) -> Option<String> {
    let unified = groups.0.iter().find(|group| group.controllers.is_empty());
    let cpu = groups.0.iter().find(|group| group.controllers.iter().any(|name| name == "cpu"));
    let known = || [unified, cpu].into_iter().flatten().map(|group| group.pathname.as_str());
    known().find(|path| *path != "/").or_else(|| known().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;
    use std::os::unix::fs::symlink;

    /// Lists the threads of a procfs in which process 2 is `sleep`, as a process of these namespaces.
    fn list_as(pid_namespace: &str, cgroup_namespace: &str) -> Vec<ThreadFacts> {
        let procfs = tempfile::tempdir().unwrap();
        let (own, task) = (procfs.path().join("self/ns"), procfs.path().join("2/task/2"));
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&task).unwrap();
        symlink(pid_namespace, own.join("pid")).unwrap();
        symlink(cgroup_namespace, own.join("cgroup")).unwrap();
        fs::write(task.join("comm"), "sleep\n").unwrap();
        fs::write(procfs.path().join("2/cgroup"), "0::/a\n").unwrap();
        list_threads(&Namespaces::find(procfs.path(), Vec::new()))
    }

    #[test]
    fn threads_are_listed_from_initial_namespaces_only() {
        let (pid, cgroup) = ("pid:[4026531836]", "cgroup:[4026531835]");
        let thread = |cgroup: Option<&str>| ThreadFacts {
            tid: 2,
            pid: 2,
            comm: "sleep".to_owned(),
            cgroup: cgroup.map(str::to_owned),
        };
        assert_eq!(list_as(pid, cgroup), [thread(Some("/a"))]);
        assert_eq!(list_as(pid, "cgroup:[4026532178]"), [thread(None)]);
        assert!(list_as("pid:[4026532178]", cgroup).is_empty());
    }

    #[test]
    fn cgroup_of_either_version() {
        let v2 = "0::/machine.slice/vm1\n";
        let hybrid = "4:cpu,cpuacct:/docker/x\n1:name=systemd:/y\n0::/\n";
        let path = |text: &str| cgroup_path(&ProcessCGroups::from_read(text.as_bytes()).unwrap());
        assert_eq!(path(v2).as_deref(), Some("/machine.slice/vm1"));
        assert_eq!(path(hybrid).as_deref(), Some("/docker/x"));
        assert_eq!(path("0::/\n").as_deref(), Some("/"));
        assert_eq!(path(""), None);
    }
}
