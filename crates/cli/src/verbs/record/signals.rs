//! Signals and other wakeups of the recorder's loop.

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use std::{
    io::Read,
    os::{fd::AsFd, unix::net::UnixStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use transect_recorder::Hurry;

/// Signals that end a recording, with their names.
const ENDING: [(i32, &str); 3] = [(SIGINT, "SIGINT"), (SIGTERM, "SIGTERM"), (SIGHUP, "SIGHUP")];

/// Signals by which a service manager or a closed terminal ends a program: it must not take long.
const HURRYING: [&str; 2] = ["SIGTERM", "SIGHUP"];

/// The signals a recorder listens to.
pub(super) struct Signals {
    ending: Vec<(Arc<AtomicBool>, &'static str)>,
    snapshot: Arc<AtomicBool>,
    wake: UnixStream,
}

impl Signals {
    /// Listens from now on. A second SIGINT ends the process at once: what it wrote stays
    /// readable, and its tracing instance is removed by the next recorder.
    pub(super) fn listen() -> anyhow::Result<Self> {
        let (wake, wake_end) = UnixStream::pair().context("cannot create a socket pair")?;
        wake.set_nonblocking(true)?;
        let interrupted = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(SIGINT, 130, interrupted.clone())?;
        signal_hook::flag::register(SIGINT, interrupted)?;
        let mut ending = Vec::new();
        for (signal, name) in ENDING {
            ending.push((flag(signal)?, name));
        }
        let snapshot = flag(SIGUSR2)?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGUSR2, SIGCHLD] {
            signal_hook::low_level::pipe::register(signal, wake_end.try_clone()?)?;
        }
        Ok(Signals { ending, snapshot, wake })
    }

    /// The signal that asks for the end, if one came.
    pub(super) fn ending(&self) -> Option<&'static str> {
        self.ending.iter().find(|(came, _)| came.load(Ordering::Relaxed)).map(|(_, name)| *name)
    }

    /// Whether the end must come soon, now and later.
    pub(super) fn hurry(&self) -> Hurry {
        let hurrying = self.ending.iter().filter(|(_, name)| HURRYING.contains(name));
        hurrying.map(|(came, _)| came.clone()).collect()
    }

    /// Was a snapshot asked for since the last call?
    pub(super) fn take_snapshot(&self) -> bool {
        self.snapshot.swap(false, Ordering::Relaxed)
    }

    /// Sleeps until a signal comes, `other` is readable or `timeout` passed.
    pub(super) fn wait(&mut self, other: &impl AsFd, timeout: Duration) {
        let mut fds = [PollFd::new(&self.wake, PollFlags::IN), PollFd::new(other, PollFlags::IN)];
        // An error of poll (EINTR: a signal) is a reason to look as well.
        let _ = poll(&mut fds, Timespec::try_from(timeout).ok().as_ref());
        let mut sink = [0; 64];
        while matches!(self.wake.read(&mut sink), Ok(read) if read > 0) {}
    }
}

fn flag(signal: i32) -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, flag.clone())
        .context("cannot install the signal handlers")?;
    Ok(flag)
}
