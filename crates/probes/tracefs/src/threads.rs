//! Threads as procfs shows them, under the ids that events carry.
//!
//! Inside a pid namespace without a procfs of the initial one, nothing is known of any thread: an id there belongs to
//! another thread than the same id in events ([`crate::namespaces`]).
#![allow(unsafe_code, reason = "sched_getaffinity(2) of any number of CPUs, sched_getattr(2)")]

use crate::namespaces::{Namespaces, numbered};
use procfs::{ProcessCGroups, process::Process};
use std::{fs, io, mem::MaybeUninit, path::Path, time::Duration};
use transect_model::setting::{MAX_CPU_LIST_BYTES, SchedPolicy, ThreadSettings, cpu_list};

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

/// Reads how threads are scheduled: two system calls and no file for each.
#[derive(Debug)]
pub struct SettingsReader {
    /// Do this process's system calls take the ids that events carry?
    takes_initial_ids: bool,
    /// As large as the kernel's masks of CPUs.
    mask: Vec<u64>,
}

impl SettingsReader {
    /// Words of a mask that no kernel fills: 8,192 CPUs (`NR_CPUS`) are 128 words.
    const MAX_WORDS: usize = 1 << 10;

    /// A reader for the threads of this machine.
    pub fn new() -> Self {
        let takes_initial_ids = Namespaces::current().is_initial_pid();
        SettingsReader { takes_initial_ids, mask: vec![0; 16] }
    }

    /// How a thread is scheduled now. Nothing is known if the thread is gone or this process is in a pid namespace.
    pub fn read(&mut self, tid: i32) -> ThreadSettings {
        if !self.takes_initial_ids || tid <= 0 {
            return ThreadSettings::default();
        }
        let allowed_cpus = self.allowed_cpus(tid).filter(|list| list.len() <= MAX_CPU_LIST_BYTES);
        let Some(attributes) = scheduling_attributes(tid) else {
            return ThreadSettings { allowed_cpus, ..ThreadSettings::default() };
        };
        let policy = SchedPolicy::from_number(attributes.policy);
        // The kernel sets either of them, by policy (Linux 6.1 kernel/sched/core.c, get_params).
        let has_rt_priority = matches!(policy, Some(SchedPolicy::Fifo | SchedPolicy::Rr));
        let has_nice = policy.is_some_and(|policy| policy != SchedPolicy::Deadline);
        ThreadSettings {
            allowed_cpus,
            policy,
            nice: (has_nice && !has_rt_priority).then_some(attributes.nice),
            rt_priority: has_rt_priority.then_some(attributes.priority),
        }
    }

    /// The allowed CPUs that are online (Linux 6.1 kernel/sched/core.c, `sched_getaffinity`).
    fn allowed_cpus(&mut self, tid: i32) -> Option<String> {
        loop {
            let bytes = size_of_val(self.mask.as_slice());
            // SAFETY: the kernel writes at most `bytes` bytes of the mask, which outlives the call.
            let written = unsafe {
                libc::syscall(libc::SYS_sched_getaffinity, tid, bytes, self.mask.as_mut_ptr())
            };
            if let Ok(written) = usize::try_from(written) {
                let words = self.mask.iter().take(written.div_ceil(size_of::<u64>()));
                return Some(cpu_list(words.zip(0..).flat_map(|(word, at)| {
                    (0..u64::BITS)
                        .filter(move |bit| word >> bit & 1 == 1)
                        .map(move |bit| at * u64::BITS + bit)
                })));
            }
            // EINVAL: the kernel has more CPUs than the mask.
            let is_short = io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
            if !is_short || self.mask.len() >= Self::MAX_WORDS {
                return None;
            }
            self.mask = vec![0; (self.mask.len() * 2).max(1)];
        }
    }
}

impl Default for SettingsReader {
    fn default() -> Self {
        Self::new()
    }
}

/// The first version of `struct sched_attr` (include/uapi/linux/sched/types.h), which every kernel fills.
#[repr(C)]
struct SchedulingAttributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

fn scheduling_attributes(tid: i32) -> Option<SchedulingAttributes> {
    let mut attributes = MaybeUninit::<SchedulingAttributes>::zeroed();
    let bytes = u32::try_from(size_of::<SchedulingAttributes>()).ok()?;
    // SAFETY: the kernel writes at most `bytes` bytes to the struct, which outlives the call, and fails otherwise.
    let result = unsafe {
        libc::syscall(libc::SYS_sched_getattr, tid, attributes.as_mut_ptr(), bytes, 0_u32)
    };
    // SAFETY: all bytes were zeroed, and zero is a value of every field.
    (result == 0).then(|| unsafe { attributes.assume_init() })
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

    /// This thread's, once it has been changed in every way.
    #[test]
    fn settings_are_the_threads_own() {
        if !Namespaces::current().is_initial_pid() {
            println!("skipped: system calls do not take the ids of the initial pid namespace");
            return;
        }
        let mut reader = SettingsReader::new();
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let listed =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let [listed, online] =
            [listed, &fs::read_to_string("/sys/devices/system/cpu/online").unwrap()]
                .map(|list| crate::cpus::parse_list(list).unwrap());
        let own = reader.read(tid).allowed_cpus.unwrap();
        let own = crate::cpus::parse_list(&own).unwrap();
        assert!(listed.iter().filter(|cpu| online.contains(cpu)).eq(&own), "{listed:?} {own:?}");

        let last = usize::try_from(own.last().unwrap().0).unwrap();
        let mut one = rustix::thread::CpuSet::new();
        one.set(last);
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        rustix::process::setpriority_process(None, 5).unwrap();
        let allowed_cpus = Some(last.to_string());
        let set_policy = |policy, sched_priority| {
            let parameters = libc::sched_param { sched_priority };
            // SAFETY: the parameters outlive the call.
            unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) == 0 }
        };
        assert!(set_policy(libc::SCHED_BATCH, 0));
        let batch = ThreadSettings {
            allowed_cpus: allowed_cpus.clone(),
            policy: Some(SchedPolicy::Batch),
            nice: Some(5),
            rt_priority: None,
        };
        assert_eq!(reader.read(tid), batch);
        if !set_policy(libc::SCHED_FIFO, 3) {
            println!("skipped in part: this process may not have a real-time priority");
            return;
        }
        let fifo = ThreadSettings {
            allowed_cpus,
            policy: Some(SchedPolicy::Fifo),
            nice: None,
            rt_priority: Some(3),
        };
        assert_eq!(reader.read(tid), fifo);
        assert!(set_policy(libc::SCHED_OTHER, 0));
    }

    #[test]
    fn nothing_is_known_of_a_thread_that_is_gone() {
        let tid = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get());
        let tid = tid.join().unwrap();
        // It has left its thread group by now, or will have soon.
        let mut reader = SettingsReader::new();
        while Path::new(&format!("/proc/self/task/{tid}")).exists() {
            std::thread::yield_now();
        }
        assert_eq!(reader.read(tid), ThreadSettings::default());
        assert_eq!(reader.read(0), ThreadSettings::default());
        assert_eq!(reader.read(-1), ThreadSettings::default());
    }

    /// The kernel refuses a mask with fewer bits than it has CPUs.
    #[test]
    fn mask_grows_to_the_kernels() {
        if !Namespaces::current().is_initial_pid() {
            return;
        }
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        let mut small = SettingsReader { takes_initial_ids: true, mask: Vec::new() };
        assert_eq!(small.read(tid), SettingsReader::new().read(tid));
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
