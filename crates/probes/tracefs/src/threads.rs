//! Threads as procfs knows them.

use std::fs;

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

/// Every thread alive now. Threads that end while this looks are left out.
pub fn all() -> Vec<ThreadFacts> {
    let mut threads = Vec::new();
    for pid in numbered("/proc") {
        let cgroup = cgroup_of(pid);
        for tid in numbered(&format!("/proc/{pid}/task")) {
            let Ok(comm) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) else { continue };
            let comm = String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned();
            threads.push(ThreadFacts { tid, pid, comm, cgroup: cgroup.clone() });
        }
    }
    threads
}

pub(crate) fn all_tids() -> Vec<i32> {
    let pids = numbered("/proc");
    pids.into_iter().flat_map(|pid| numbered(&format!("/proc/{pid}/task"))).collect()
}

/// Entries of a directory whose names are numbers.
fn numbered(dir: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// The control group of a process: see [`ThreadFacts::cgroup`]. None if it is gone.
pub fn cgroup_of(pid: i32) -> Option<String> {
    cgroup_path(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?)
}

/// From `/proc/PID/cgroup` (`ID:CONTROLLERS:PATH` per line): the path in the unified hierarchy if
/// it says anything, else the one of the cpu controller.
fn cgroup_path(text: &str) -> Option<String> {
    let lines = || {
        text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        })
    };
    let unified = lines().find(|(controllers, _)| controllers.is_empty());
    let cpu = lines().find(|(controllers, _)| controllers.split(',').any(|c| c == "cpu"));
    let known = [unified, cpu].into_iter().flatten().map(|(_, path)| path);
    known.clone().find(|path| *path != "/").or(known.clone().next()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_of_either_version() {
        let v2 = "0::/machine.slice/vm1\n";
        let hybrid = "4:cpu,cpuacct:/docker/x\n1:name=systemd:/y\n0::/\n";
        assert_eq!(cgroup_path(v2).as_deref(), Some("/machine.slice/vm1"));
        assert_eq!(cgroup_path(hybrid).as_deref(), Some("/docker/x"));
        assert_eq!(cgroup_path("0::/\n").as_deref(), Some("/"));
        assert_eq!(cgroup_path(""), None);
    }
}
