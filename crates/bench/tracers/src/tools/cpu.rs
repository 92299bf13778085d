//! CPU time of processes that still run.
//!
//! An ended process tells its own and its children's ([`super::child`]). What it had used when the workload began has
//! to be read while it runs: the kernel's per-thread sums in nanoseconds (`schedstat`, Documentation/scheduler/sched-stats.rst),
//! since `/proc/PID/stat` counts in hundredths of a second.

use procfs::process::{Process, Task};

/// CPU time until now of a process and all its descendants that live, all threads, ns. Threads and children that have
/// ended are not in it.
pub(crate) fn until_now_ns(pid: u32) -> u64 {
    family(pid).into_iter().map(of_process).sum()
}

fn of_process(pid: u32) -> u64 {
    let tasks = Process::new(pid.cast_signed()).and_then(|process| process.tasks());
    let of_thread = |task: Task| task.schedstat().ok().map(|sums| sums.sum_exec_runtime);
    tasks.into_iter().flatten().flatten().filter_map(of_thread).sum()
}

/// The process and its descendants.
pub(crate) fn family(pid: u32) -> Vec<u32> {
    let parents = parents();
    let mut family = vec![pid];
    let mut next = 0;
    while let Some(parent) = family.get(next).copied() {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        next += 1;
    }
    family
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    all.filter_map(|process| {
        let parent = process.stat().ok()?.ppid;
        Some((process.pid().cast_unsigned(), parent.cast_unsigned()))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn children_and_their_work_are_counted() {
        let mut child =
            Command::new("sh").args(["-c", "sh -c 'while :; do :; done'; true"]).spawn().unwrap();
        let pid = child.id();
        while until_now_ns(pid) < 30_000_000 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let family = family(pid);
        assert_eq!(family.len(), 2);
        assert!(of_process(pid) < 30_000_000, "the child's work, not its parent's");
        let inner = i32::try_from(family[1]).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(inner, rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }
}
