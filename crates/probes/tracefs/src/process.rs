//! Who a process is: pid plus start time, because pids are used again.

use procfs::process::Process;

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
        let stat = Process::new(pid).ok()?.stat().ok()?;
        Some(ProcessKey { pid, start_ticks: stat.starttime })
    }

    /// This process, under the id that procfs shows: inside a pid namespace, procfs may be that of the initial one, and
    /// getpid(2) then returns the id of another process there.
    pub fn current() -> Option<Self> {
        let stat = Process::myself().ok()?.stat().ok()?;
        Some(ProcessKey { pid: stat.pid, start_ticks: stat.starttime })
    }

    /// Does it still live?
    pub fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_its_namesake_does_not() {
        let me = ProcessKey::current().unwrap();
        assert!(me.is_alive());
        assert!(!ProcessKey { start_ticks: me.start_ticks + 1, ..me }.is_alive());
    }
}
