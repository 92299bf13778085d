//! A control group of its own: memory limit, CPUs, and a sure end for everything in it.
//!
//! Where controllers are of version 1 (or hybrid), the groups are made below this process' own: limits that already
//! hold for it hold there too. Under version 2, a group with processes can have no children with controllers, so the
//! group is made at the top (Linux `Documentation/admin-guide/cgroup-v2.rst`, "No Internal Process Constraint").
//!
//! The groups' names carry this process' number. What a process left that was killed is swept by the next one.

use crate::kit::failed;
use procfs::{Current, Meminfo, ProcessCGroups, process::Process};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::rundir::RunDir;

const PREFIX: &str = "transect-bench-";
const ROOT: &str = "/sys/fs/cgroup";
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A control group, in one or two hierarchies. Dropping it kills what is in it and removes it.
pub(crate) struct Fence {
    folders: Vec<PathBuf>,
}

impl Fence {
    /// Makes one, and leaves its end with the run's guard too.
    pub(crate) fn new(run: &RunDir, memory_mib: u32, cpus: &[u32]) -> Result<Self, Fault> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        let parents = parents()?;
        for (parent, _) in &parents {
            sweep(parent);
        }
        let folders = parents.iter().map(|(parent, _)| parent.join(&name)).collect::<Vec<_>>();
        run.at_end(&last_words(&folders)).map_err(|error| failed(&error))?;
        let fence = Self { folders };
        for ((parent, hierarchy), folder) in parents.iter().zip(&fence.folders) {
            fs::create_dir(folder).map_err(|error| refused(folder, &error))?;
            limit(*hierarchy, parent, folder, memory_mib, cpus)?;
        }
        Ok(fence)
    }

    /// Shell words that put the shell into it.
    pub(crate) fn enter(&self) -> String {
        let into =
            |folder: &PathBuf| format!("echo $$ >'{}/cgroup.procs' || exit 125", folder.display());
        self.folders.iter().map(into).collect::<Vec<_>>().join("; ")
    }

    /// Everything that runs in it: threads.
    pub(crate) fn tids(&self) -> Vec<u32> {
        self.pids().into_iter().flat_map(threads_of).collect()
    }

    /// Processes in it, those of groups below too.
    fn pids(&self) -> Vec<u32> {
        self.folders.first().map(|folder| pids_below(folder)).unwrap_or_default()
    }

    /// Kills all that is in it.
    pub(crate) fn kill(&self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let pids = self.pids();
            if pids.is_empty() || Instant::now() > deadline {
                return;
            }
            for pid in pids {
                kill(pid);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        self.kill();
        for folder in &self.folders {
            remove(folder);
        }
    }
}

/// Threads of a process; none if it is gone.
pub(crate) fn threads_of(pid: u32) -> Vec<u32> {
    let tasks = Process::new(pid.cast_signed()).and_then(|process| process.tasks());
    tasks.into_iter().flatten().flatten().map(|task| task.tid.cast_unsigned()).collect()
}

/// What this process may use of this host's memory: all of it, or what its control group allows.
pub(crate) fn memory_of_this_host_bytes() -> Result<u64, Fault> {
    Meminfo::current().map(|memory| memory.mem_total).map_err(Fault::failed)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hierarchy {
    Memory,
    Cpuset,
    Unified,
}

/// Where groups can be made.
fn parents() -> Result<Vec<(PathBuf, Hierarchy)>, Fault> {
    let root = Path::new(ROOT);
    if root.join("cgroup.controllers").exists() {
        return Ok(vec![(root.to_owned(), Hierarchy::Unified)]);
    }
    let own = Process::myself().and_then(|process| process.cgroups()).map_err(Fault::failed)?;
    [("memory", Hierarchy::Memory), ("cpuset", Hierarchy::Cpuset)]
        .into_iter()
        .map(|(name, hierarchy)| {
            let path = own_group(&own, name).ok_or_else(|| {
                let why = format!("this kernel has no control groups with {name}");
                Fault::from(Refusal::new(Kind::NotHere, "memory and CPU limits", why))
            })?;
            Ok((root.join(name).join(path.trim_start_matches('/')), hierarchy))
        })
        .collect()
}

/// The group of this process in the hierarchy of a controller.
fn own_group<'a>(groups: &'a ProcessCGroups, controller: &str) -> Option<&'a str> {
    let group = groups.into_iter().find(|group| group.controllers.iter().any(|c| c == controller));
    group.map(|group| group.pathname.as_str())
}

fn limit(
    hierarchy: Hierarchy,
    parent: &Path,
    folder: &Path,
    memory_mib: u32,
    cpus: &[u32],
) -> Result<(), Fault> {
    let bytes = (u64::from(memory_mib) << 20).to_string();
    let list = super::params::cpu_list(cpus);
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).map_err(|error| refused(&path, &error))
    };
    match hierarchy {
        Hierarchy::Memory => write("memory.limit_in_bytes", &bytes),
        Hierarchy::Cpuset => {
            let mems = fs::read_to_string(parent.join("cpuset.mems")).map_err(Fault::failed)?;
            write("cpuset.mems", mems.trim())?;
            write("cpuset.cpus", &list)
        }
        Hierarchy::Unified => {
            let control = parent.join("cgroup.subtree_control");
            fs::write(&control, "+memory +cpuset").map_err(|error| refused(&control, &error))?;
            write("memory.max", &bytes)?;
            // Other machines of a comparison have no swap either; a kernel without swap has no such file.
            if folder.join("memory.swap.max").exists() {
                write("memory.swap.max", "0")?;
            }
            write("cpuset.cpus", &list)
        }
    }
}

fn refused(path: &Path, error: &std::io::Error) -> Fault {
    let why = format!("cannot write {}: {error}", path.display());
    Refusal::new(Kind::NotHere, "memory and CPU limits", why).into()
}

/// Removes groups whose makers are gone.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let maker = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse().ok());
        if let Some(maker) = maker
            && !Path::new("/proc").join(u32::to_string(&maker)).exists()
        {
            pids_below(&entry.path()).into_iter().for_each(kill);
            remove(&entry.path());
        }
    }
}

fn pids_below(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut pids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
    for below in folders_in(folder) {
        pids.extend(pids_below(&below));
    }
    pids
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

fn kill(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    // It may have ended just now; 0 (a process of another PID namespace) is nobody.
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// A group is busy for a moment after its last process has ended.
fn remove(folder: &Path) {
    for below in folders_in(folder) {
        remove(&below);
    }
    for _ in 0..200 {
        match fs::remove_dir(folder) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            _ => return,
        }
    }
}

/// For the guard, should this process be killed.
fn last_words(folders: &[PathBuf]) -> String {
    let mut script = String::new();
    for folder in folders {
        let folder = folder.display();
        script += &format!(
            "i=0; while [ -d '{folder}' ] && [ $i -lt 200 ]; do
             for pid in $(cat '{folder}/cgroup.procs'); do kill -KILL $pid; done
             find '{folder}' -depth -type d -exec rmdir {{}} \\; ; i=$((i + 1)); sleep 0.02; done\n"
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::FromRead;

    #[test]
    fn the_own_group_is_found_by_its_controller() {
        let text = "9:name=systemd:/\n4:memory:/a/b\n2:cpu,cpuacct:/c:d\n0::/\n";
        let groups = ProcessCGroups::from_read(text.as_bytes()).unwrap();
        assert_eq!(own_group(&groups, "memory"), Some("/a/b"));
        assert_eq!(own_group(&groups, "cpuacct"), Some("/c:d"));
        assert_eq!(own_group(&groups, "cpuset"), None);
    }

    /// Tier `make test`: control groups need root.
    mod host {
        use super::*;

        #[test]
        fn what_is_inside_is_limited_and_ends_with_it() {
            if !rustix::process::geteuid().is_root() {
                println!("skipped: control groups need root");
                return;
            }
            let run = RunDir::new(Duration::from_secs(60)).unwrap();
            let fence = match Fence::new(&run, 64, &[0]) {
                Ok(fence) => fence,
                Err(error) => {
                    println!("skipped: {error}");
                    return;
                }
            };
            let (folders, out) = (fence.folders.clone(), run.path().join("out"));
            let script = format!("{}; exec setsid sleep 1000", fence.enter());
            let words = ["sh", "-c", &script].map(Into::into);
            let _sleeper = run.spawn(&words, &out, &out).unwrap();
            // It enters one hierarchy after the other: only the last word of the script tells that it is in all of them.
            let deadline = Instant::now() + Duration::from_secs(60);
            let is_sleeping = |pid: &u32| {
                let process = Process::new(pid.cast_signed());
                process.and_then(|process| process.stat()).is_ok_and(|stat| stat.comm == "sleep")
            };
            let mut pids = fence.pids();
            while !(pids.len() == 1 && pids.iter().all(is_sleeping)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
                pids = fence.pids();
            }
            assert_eq!(pids.len(), 1);
            let limits = Process::new(pids[0].cast_signed()).unwrap().status().unwrap();
            assert_eq!(limits.cpus_allowed_list, Some(vec![(0, 0)]));
            drop(fence);
            assert!(folders.iter().all(|folder| !folder.exists()));
        }
    }
}
