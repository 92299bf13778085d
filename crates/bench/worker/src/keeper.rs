//! The process that a platform starts: it waits, and leaves nothing behind.

use super::{
    WorkerError, family,
    own::{Mode, Own},
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid},
};
use signal_hook::{consts::signal, low_level::pipe};
use std::{
    io::{self, Read},
    os::unix::net::UnixStream,
    process::Command,
};

/// How long the worker may take to end its tracer and clean up after a signal.
const PATIENCE: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Starts the worker, waits for it, kills what is left of it. Gives its exit code.
pub(crate) fn keep(own: &Own) -> Result<u8, WorkerError> {
    family::adopt()?;
    let (mut signalled, by) = UnixStream::pair().map_err(WorkerError::system("make a pipe"))?;
    for number in [signal::SIGTERM, signal::SIGINT, signal::SIGHUP] {
        let by = by.try_clone().map_err(WorkerError::system("share a pipe"))?;
        pipe::register(number, by).map_err(WorkerError::system("block and receive signals"))?;
    }
    let worker = Command::new(&own.program)
        .args(&own.arguments)
        .arg(Mode::SERVE)
        .spawn()
        .map_err(WorkerError::system(format!("start {}", own.program.display())))?;
    let pid = Pid::from_child(&worker);
    let code = wait_for(pid, &mut signalled).map_err(WorkerError::system("wait for the worker"));
    family::sweep();
    code
}

fn wait_for(worker: Pid, signalled: &mut UnixStream) -> io::Result<u8> {
    let ended = pidfd_open(worker, PidfdFlags::empty())?;
    let mut patience = None;
    loop {
        let mut waited =
            [PollFd::new(&ended, PollFlags::IN), PollFd::new(signalled, PollFlags::IN)];
        match poll(&mut waited, patience) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if !waited[0].revents().is_empty() {
            break;
        }
        if waited[1].revents().is_empty() {
            kill_process(worker, Signal::KILL)?;
            patience = None;
            continue;
        }
        signalled.read_exact(&mut [0])?;
        kill_process(worker, Signal::TERM)?;
        patience = Some(&PATIENCE);
    }
    let status = waitpid(Some(worker), WaitOptions::empty())?.map(|(_, status)| status);
    match status.and_then(|status| status.exit_status()) {
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => Err(io::Error::other("it was killed")),
    }
}
