//! An open channel, and waiting for it.

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
    time::Timespec,
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::fd::{AsFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// How often a wait looks whether the session was ended meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a read found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read1 {
    /// So many bytes.
    Bytes(usize),
    /// Nothing within the time limit.
    Nothing,
    /// The peer is gone.
    Closed,
}

/// An open channel.
#[derive(Debug)]
pub struct Channel {
    file: File,
}

impl Channel {
    /// Takes a connected descriptor (socket or port) and makes it non-blocking.
    ///
    /// # Errors
    /// If the descriptor's flags cannot be changed.
    pub fn new(fd: OwnedFd) -> io::Result<Self> {
        let flags = fcntl_getfl(&fd)?;
        fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
        Ok(Channel { file: File::from(fd) })
    }

    /// Waits up to `limit` for bytes and reads what is there.
    ///
    /// # Errors
    /// What `poll` and `read` report, except that a peer that went away is [`Read1::Closed`].
    pub fn read(&self, buffer: &mut [u8], limit: Duration) -> io::Result<Read1> {
        match (&self.file).read(buffer) {
            Err(error) if is_again(&error) => {}
            result => return read_outcome(result),
        }
        if wait(&self.file, PollFlags::IN, limit)?.is_empty() {
            return Ok(Read1::Nothing);
        }
        read_outcome((&self.file).read(buffer))
    }

    /// Writes all of `bytes`, giving up when `closed` is set or the peer has taken nothing for
    /// `patience`.
    ///
    /// # Errors
    /// `TimedOut` for lost patience, `ConnectionAborted` if `closed` was set, else what `write`
    /// reports. Part of the bytes may have been sent: the channel is of no more use.
    pub fn write_all(
        &self,
        mut bytes: &[u8],
        closed: &AtomicBool,
        patience: Duration,
    ) -> io::Result<()> {
        let mut moved_at = Instant::now();
        while !bytes.is_empty() {
            match (&self.file).write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = bytes.get(written..).unwrap_or_default();
                    moved_at = Instant::now();
                }
                Err(error) if is_again(&error) => {
                    if closed.load(Ordering::Relaxed) {
                        return Err(io::ErrorKind::ConnectionAborted.into());
                    }
                    if moved_at.elapsed() > patience {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                    // A virtio-serial port whose host side left is never writable again but does
                    // not fail either (drivers/char/virtio_console.c, will_write_block).
                    if wait(&self.file, PollFlags::OUT, LOOK_EVERY)? == PollFlags::HUP {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn is_again(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

fn read_outcome(result: io::Result<usize>) -> io::Result<Read1> {
    match result {
        Ok(0) => Ok(Read1::Closed),
        Ok(bytes) => Ok(Read1::Bytes(bytes)),
        Err(error) if is_again(&error) => Ok(Read1::Nothing),
        Err(error) => match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::NotConnected => Ok(Read1::Closed),
            _ => Err(error),
        },
    }
}

/// Waits until the descriptor is ready or hung up, and says which; empty if `limit` passed first.
pub(super) fn wait(fd: &impl AsFd, ready: PollFlags, limit: Duration) -> io::Result<PollFlags> {
    let timeout = timespec(limit);
    let mut fds = [PollFd::new(fd, ready)];
    match poll(&mut fds, Some(&timeout)) {
        Ok(_) => Ok(fds[0].revents()),
        Err(Errno::INTR) => Ok(PollFlags::empty()),
        Err(error) => Err(error.into()),
    }
}

fn timespec(limit: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    }
}
