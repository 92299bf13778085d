//! Processes `xentrace` of recorders that are dead, and of others.
//!
//! Ours carry a mark in their environment: pid and start time of their recorder. Nothing but a
//! mark whose recorder is dead makes one a leftover.

use procfs::process::{Process, all_processes};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsStr,
    io, thread,
    time::{Duration, Instant},
};

/// The environment variable with the mark.
pub(crate) const MARK: &str = "TRANSECT_XENTRACE_OF";
/// How long one gets to end in order.
const PATIENCE: Duration = Duration::from_secs(2);

/// An `xentrace` that a dead recorder left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its pid (it has ended).
    pub pid: i32,
    /// Its recorder's pid, when that lived.
    pub recorder: i32,
    /// Did it end in order, so that Xen does not trace any more?
    pub in_order: bool,
}

/// This process's mark.
pub(crate) fn mark() -> String {
    let pid = std::process::id();
    let start = i32::try_from(pid).ok().and_then(start_ticks).unwrap_or(0);
    format!("{pid}:{start}")
}

/// When a process began, in clock ticks since boot; none if it is gone.
fn start_ticks(pid: i32) -> Option<u64> {
    Some(Process::new(pid).ok()?.stat().ok()?.starttime)
}

/// Processes called `xentrace`, with the mark that is on them.
fn all() -> Vec<(i32, Option<String>)> {
    let Ok(processes) = all_processes() else { return Vec::new() };
    let is_xentrace = |process: &Process| process.stat().is_ok_and(|stat| stat.comm == "xentrace");
    let found = processes.flatten().filter(is_xentrace);
    found.map(|process| (process.pid, mark_of(&process))).collect()
}

fn mark_of(process: &Process) -> Option<String> {
    let environment = process.environ().ok()?;
    Some(environment.get(OsStr::new(MARK))?.to_string_lossy().into_owned())
}

/// The recorder a mark names, if it is dead.
fn dead_recorder(mark: &str) -> Option<i32> {
    let (pid, start) = mark.split_once(':')?;
    let (pid, start): (i32, u64) = (pid.parse().ok()?, start.parse().ok()?);
    (start_ticks(pid) != Some(start)).then_some(pid)
}

/// Ends those that dead recorders left. They normally end with them; one stays if it waits for room in
/// the pipe that nobody reads.
pub fn end_leftovers() -> Vec<Leftover> {
    let left = all().into_iter().filter_map(|(pid, mark)| Some((pid, dead_recorder(&mark?)?)));
    left.map(|(pid, recorder)| Leftover { pid, recorder, in_order: end(pid) }).collect()
}

/// Is there another `xentrace`, one that is nobody's leftover? Only one process can have Xen's buffers.
pub fn other_xentrace() -> Option<i32> {
    let lives = |mark: &Option<String>| mark.as_deref().and_then(dead_recorder).is_none();
    all().into_iter().find(|(_, mark)| lives(mark)).map(|(pid, _)| pid)
}

/// In order if it can, else by force. Returns which it was.
fn end(pid: i32) -> bool {
    for (signal, in_order) in [(Signal::TERM, true), (Signal::KILL, false)] {
        let Some(target) = Pid::from_raw(pid) else { return false };
        if kill_process(target, signal)
            .is_err_and(|error| io::Error::from(error).kind() != io::ErrorKind::NotFound)
        {
            return false;
        }
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if !is_alive(pid) {
                return in_order;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
    false
}

/// A zombie has ended; whoever should reap it may be long in doing so.
fn is_alive(pid: i32) -> bool {
    Process::new(pid).is_ok_and(|process| process.is_alive())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_the_living_are_told_from_those_of_the_dead() {
        assert_eq!(dead_recorder(&mark()), None);
        let pid = std::process::id();
        assert_eq!(dead_recorder(&format!("{pid}:1")), i32::try_from(pid).ok());
        assert_eq!(dead_recorder("nonsense"), None);
    }
}
