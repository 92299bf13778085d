//! One running `xentrace`.
//!
//! It writes into a pipe that it also holds the reading end of: if the recorder dies, the signal for that case makes it
//! end in order, which takes one more write. Without a reader that write would kill it, and Xen would go on tracing
//! into buffers that nobody reads.
#![allow(unsafe_code, reason = "prctl(2) between fork and exec; wait4(2)")]

use crate::{EventMask, How, XenError, leftovers, tools::Said};
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    pipe::{PipeFlags, fcntl_setpipe_size, pipe_with},
    process::{Pid, Signal, kill_process, set_parent_process_death_signal},
};
use std::{
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::process::CommandExt,
    },
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Xen's page, in which `-S` counts.
const PAGE_BYTES: usize = 4096;
/// So much waits in the pipe at most; a window that does not fit keeps `xentrace` waiting.
const PIPE_BYTES: usize = 1 << 20;
/// Between two polls of Xen's buffers; Xen besides wakes it when one is half full.
const POLL_MS: &str = "100";
/// After its end is certain.
const REAP_EVERY: Duration = Duration::from_millis(1);

/// How `xentrace` is started.
#[derive(Clone, Debug)]
pub(crate) struct Start<'a> {
    pub(crate) xentrace: &'a PathBuf,
    pub(crate) mask: EventMask,
    pub(crate) buffer_bytes_per_cpu: usize,
    /// Throw away what is in Xen's buffers from former times.
    pub(crate) discard: bool,
}

/// CPU time, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuNs {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub sys_ns: u64,
}

/// A running (or ended) `xentrace`.
#[derive(Debug)]
pub(crate) struct Xentrace {
    pid: Pid,
    stream: OwnedFd,
    said: Said,
    /// Once reaped: its pid may be another's.
    ended: Option<How>,
}

impl Xentrace {
    /// Starts it. The thread that calls must live as long as it: its end counts as the recorder's.
    pub(crate) fn start(start: &Start<'_>) -> Result<Self, XenError> {
        let tool = start.xentrace;
        let failed =
            |action| move |source: io::Error| XenError::Tool { tool: tool.clone(), action, source };
        let (stream, into) = pipe_with(PipeFlags::CLOEXEC)
            .map_err(io::Error::from)
            .map_err(failed("make a pipe for"))?;
        // Less where the system's limit is lower: then it waits for us more often.
        let _ = fcntl_setpipe_size(&stream, PIPE_BYTES);
        let flags = fcntl_getfl(&stream).map_err(io::Error::from).map_err(failed("watch"))?;
        fcntl_setfl(&stream, flags | OFlags::NONBLOCK)
            .map_err(io::Error::from)
            .map_err(failed("watch"))?;
        let said = Said::new().map_err(failed("make a file in memory for"))?;
        let pages = start.buffer_bytes_per_cpu.div_ceil(PAGE_BYTES).max(1);
        let mut command = Command::new(tool);
        command.args(["-e", &start.mask.to_string(), "-S", &pages.to_string(), "-s", POLL_MS]);
        command.args(start.discard.then_some("-D")).arg("/proc/self/fd/1");
        command.env(leftovers::MARK, leftovers::mark());
        command.stdin(Stdio::from(stream.try_clone().map_err(failed("start"))?));
        command.stdout(Stdio::from(into)).stderr(said.stdio().map_err(failed("start"))?);
        // Not in the terminal's group: ^C is for the recorder, which ends it when all has been read.
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe functions may be called; this one is a plain prctl(2).
        unsafe {
            command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::TERM))?));
        }
        let child = command.spawn().map_err(failed("start"))?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed("start")(io::ErrorKind::InvalidData.into()))?;
        // Dropping a `Child` neither ends nor reaps it: that is done below, with its CPU time.
        drop(child);
        Ok(Xentrace { pid, stream, said, ended: None })
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    pub(crate) fn stream(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Reads what is there; none if there is nothing now, 0 at its end.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match rustix::io::read(&self.stream, &mut *into) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The last of what it wrote to its standard error.
    pub(crate) fn last_words(&mut self) -> String {
        self.said.last_words()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            // Our own child, not yet reaped: the pid is still its. It may have ended meanwhile.
            let _ = kill_process(self.pid, signal);
        }
    }

    /// Waits for its end; kills it if that does not come in time. Returns how it ended, and its CPU time.
    pub(crate) fn reap(&mut self, limit: Duration) -> (How, CpuNs) {
        let started = Instant::now();
        let mut killed = false;
        loop {
            match wait4(self.pid()) {
                Ok(Some((how, cpu))) => {
                    self.ended = Some(how);
                    return (how, cpu);
                }
                Ok(None) if !killed && started.elapsed() >= limit => {
                    self.signal(Signal::KILL);
                    killed = true;
                }
                Ok(None) => thread::sleep(REAP_EVERY),
                // Not our child any more: cannot be, and there is nothing to wait for.
                Err(_) => {
                    let how = How::Killed(Signal::KILL.as_raw());
                    self.ended = Some(how);
                    return (how, CpuNs::default());
                }
            }
        }
    }
}

impl Drop for Xentrace {
    /// On an error path: it must not outlive its reader.
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            self.reap(Duration::ZERO);
        }
    }
}

fn wait4(pid: i32) -> io::Result<Option<(How, CpuNs)>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to variables that outlive the call; usage is zeroed in case nothing is written.
    let (reaped, usage) = unsafe {
        let reaped = libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
        (reaped, usage.assume_init())
    };
    match reaped {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
        _ => {
            let cpu = CpuNs { user_ns: nanos(usage.ru_utime), sys_ns: nanos(usage.ru_stime) };
            let how = if libc::WIFSIGNALED(status) {
                How::Killed(libc::WTERMSIG(status))
            } else {
                How::Exited(libc::WEXITSTATUS(status))
            };
            Ok(Some((how, cpu)))
        }
    }
}

fn nanos(time: libc::timeval) -> u64 {
    let s = u64::try_from(time.tv_sec).unwrap_or(0);
    let us = u64::try_from(time.tv_usec).unwrap_or(0);
    s * 1_000_000_000 + us * 1_000
}

/// What a running process has used until now, ns; 0 where the kernel does not count (no CONFIG_SCHED_INFO).
pub(crate) fn cpu_until_now_ns(pid: i32) -> u64 {
    let used = procfs::process::Process::new(pid).and_then(|process| process.schedstat());
    used.map_or(0, |used| used.sum_exec_runtime)
}
