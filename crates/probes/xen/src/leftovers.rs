//! Processes `xentrace` of recorders that are dead, and of others.
//!
//! Ours carry a mark in their environment: pid and start time of their recorder. Nothing but a
//! mark whose recorder is dead makes one a leftover.

use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs, io, thread,
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

/// Field 22 of `/proc/PID/stat`. The name in field 2 may hold spaces and parentheses.
fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Processes called `xentrace`, with the mark that is on them.
fn all() -> Vec<(i32, Option<String>)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_xentrace = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "xentrace")
    };
    pids.filter(is_xentrace).map(|pid| (pid, mark_of(pid))).collect()
}

fn mark_of(pid: i32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut words = environment.split(|byte| *byte == 0);
    let value = words.find_map(|word| word.strip_prefix(MARK.as_bytes())?.strip_prefix(b"="))?;
    Some(String::from_utf8_lossy(value).into_owned())
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
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
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
