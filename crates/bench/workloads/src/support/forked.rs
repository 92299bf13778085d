//! Processes made by `fork`, for workloads that measure what processes cost each other.
#![allow(unsafe_code, reason = "fork, execve and scheduling classes have no safe wrapper")]

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::{
    ffi::CString,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

/// A forked process. Dropping it kills and reaps it.
#[derive(Debug)]
pub(crate) struct Forked(Option<Pid>);

impl Forked {
    /// Forks; the new process does the work, and ends with its code.
    ///
    /// Only for the process of one job, which has one thread: in a program with several, the new process would find
    /// locks of the others taken for ever.
    pub(crate) fn start(work: impl FnOnce() -> i32) -> io::Result<Self> {
        // SAFETY: this process has one thread (see above), so the new one finds nothing half done.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                // Nobody may come back from here: the parent's destructors are not this process's.
                let code = catch_unwind(AssertUnwindSafe(work)).unwrap_or(101);
                // SAFETY: ends this process at once; nothing of it is used afterwards.
                unsafe { libc::_exit(code) }
            }
            pid => Ok(Self(Pid::from_raw(pid))),
        }
    }

    /// Waits for its end. Gives its exit code, or an error if it was killed.
    pub(crate) fn wait(mut self) -> io::Result<i32> {
        let status = waitpid(self.0.take(), WaitOptions::empty())?;
        let code = status.and_then(|(_, status)| status.exit_status());
        code.ok_or_else(|| io::Error::other("it was killed"))
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if let Some(pid) = self.0.take() {
            let _ = kill_process(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        }
    }
}

/// A command line, made before it is needed: what is measured allocates nothing.
#[derive(Debug)]
pub(crate) struct CommandLine {
    strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl CommandLine {
    /// A program's path, and its arguments.
    pub(crate) fn new(words: &[&str]) -> io::Result<Self> {
        let strings: Result<Vec<_>, _> = words.iter().map(|word| CString::new(*word)).collect();
        let strings = strings?;
        let ends = [ptr::null()];
        let pointers = strings.iter().map(|word| word.as_ptr()).chain(ends).collect();
        Ok(Self { strings, pointers })
    }

    /// Becomes that program, with an empty environment. Gives the exit code of a shell that finds none.
    pub(crate) fn exec(&self) -> i32 {
        let Some(program) = self.strings.first() else { return 127 };
        let environment = [ptr::null()];
        // SAFETY: all strings end with a NUL and live in `self`, both arrays end with a null pointer.
        unsafe {
            libc::execve(program.as_ptr(), self.pointers.as_ptr(), environment.as_ptr());
        }
        127
    }
}

/// Puts this process, and what it starts, into the first-in-first-out real-time class.
pub(crate) fn be_realtime(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the structure is complete and lives during the call; 0 is this process.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
