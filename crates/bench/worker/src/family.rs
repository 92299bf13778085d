//! The processes below this one: found, killed, reaped.

use super::WorkerError;
use rustix::process::{
    Pid, Signal, WaitOptions, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use std::collections::HashMap;

/// Orphans below this process become its children from now on, instead of `init`'s.
pub(crate) fn adopt() -> Result<(), WorkerError> {
    set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(WorkerError::system("become a child subreaper"))
}

/// The kernel sends SIGTERM to this process when its parent ends.
pub(crate) fn die_with_parent() -> Result<(), WorkerError> {
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(WorkerError::system("request a signal for the end of the parent"))?;
    // It may have ended just before; then nobody would ever say so.
    if getppid() != parent {
        let orphan = std::io::Error::other("it ended");
        return Err(WorkerError::System { what: "serve a parent".into(), error: orphan });
    }
    Ok(())
}

/// Every process below one, nearest first; without the threads of a process.
pub(crate) fn below(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for process in procfs::process::all_processes().into_iter().flatten().flatten() {
        if let Ok(stat) = process.stat() {
            children.entry(stat.ppid).or_default().push(process.pid());
        }
    }
    let mut found = vec![root.as_raw_nonzero().get()];
    let mut at = 0;
    while at < found.len() {
        found.extend(children.remove(&found[at]).unwrap_or_default());
        at += 1;
    }
    found.into_iter().skip(1).filter_map(Pid::from_raw).collect()
}

/// Kills a process and everything below it. What it started in that very moment becomes this process's child, for
/// [`sweep`] to find.
pub(crate) fn kill_tree(root: Pid) {
    // A stopped one starts nothing new.
    let _ = kill_process(root, Signal::STOP);
    for pid in below(root) {
        let _ = kill_process(pid, Signal::KILL);
    }
    let _ = kill_process(root, Signal::KILL);
}

/// Kills and reaps everything below this process, until there is nothing.
///
/// It takes the exit codes of all children: nobody may be waiting for one.
pub(crate) fn sweep() {
    let own = rustix::process::getpid();
    loop {
        let all = below(own);
        for pid in &all {
            let _ = kill_process(*pid, Signal::KILL);
        }
        // Among the killed ones there is a direct child, or there is none at all: this waits for the dying only.
        let waited = wait(WaitOptions::empty());
        if all.is_empty() && waited.is_err() {
            return;
        }
    }
}
