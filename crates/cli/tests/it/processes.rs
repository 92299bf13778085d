//! Other processes, as procfs has them.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use procfs::process::{Process, Status};

pub(crate) fn process(pid: u32) -> Process {
    Process::new(i32::try_from(pid).unwrap()).unwrap()
}

pub(crate) fn status(pid: u32) -> Status {
    process(pid).status().unwrap()
}

/// Child processes; each is listed below the thread that started it.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let tasks = process(parent).tasks().unwrap().flatten();
    tasks.filter_map(|task| task.children().ok()).flatten().collect()
}

/// User ids of a process: real, effective, saved, of its file accesses.
pub(crate) fn user_ids(status: &Status) -> [u32; 4] {
    [status.ruid, status.euid, status.suid, status.fuid]
}
