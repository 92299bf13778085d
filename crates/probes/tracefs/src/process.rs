//! Who a process is: pid plus start time, because pids are used again.

use std::fs;

/// A process, told apart from later ones with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessKey {
    /// Process id.
    pub pid: i32,
    /// Start time in clock ticks since boot (`/proc/PID/stat`, field 22).
    pub start_ticks: u64,
}

impl ProcessKey {
    /// The process `pid`, if it lives.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(ProcessKey { pid, start_ticks: start_ticks(&stat)? })
    }

    /// This process, under the id that procfs shows: inside a pid namespace, procfs may be that of the initial one, and
    /// getpid(2) then returns the id of another process there.
    pub fn current() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let pid = stat.split(' ').next()?.parse().ok()?;
        Some(ProcessKey { pid, start_ticks: start_ticks(&stat)? })
    }

    /// Does it still live?
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

/// Field 22. The name in field 2 may hold spaces and parentheses: count from its last `)`.
pub(crate) fn start_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_spaces_and_parentheses_do_not_shift_fields() {
        let stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2";
        assert_eq!(start_ticks(stat), Some(98765));
        assert_eq!(start_ticks("42 (x"), None);
    }

    #[test]
    fn this_process_lives_and_its_namesake_does_not() {
        let me = ProcessKey::current().unwrap();
        assert!(me.is_alive());
        assert!(!ProcessKey { start_ticks: me.start_ticks + 1, ..me }.is_alive());
    }
}
