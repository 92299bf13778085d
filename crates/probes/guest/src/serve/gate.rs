//! One writer at a time, answers first.

use crate::{
    proto::{Frame, Pong},
    stamp::{StampClock, current_cpu},
    transport::Channel,
};
use std::{
    io,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A recorder that takes nothing for so long is as good as gone.
const PATIENCE: Duration = Duration::from_secs(30);

/// Writes whole frames to a channel from two threads.
pub(super) struct Gate<'a> {
    channel: &'a Channel,
    session: u32,
    turn: Mutex<Turn>,
    changed: Condvar,
    closed: AtomicBool,
}

#[derive(Default)]
struct Turn {
    busy: bool,
    urgent_waiting: u32,
    /// The writer's buffer, kept for its capacity.
    buffer: Vec<u8>,
}

impl<'a> Gate<'a> {
    pub(super) fn new(channel: &'a Channel, session: u32) -> Self {
        Gate {
            channel,
            session,
            turn: Mutex::default(),
            changed: Condvar::new(),
            closed: AtomicBool::new(false),
        }
    }

    pub(super) fn session(&self) -> u32 {
        self.session
    }

    /// No more writes; one in progress gives up soon.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    pub(super) fn send(&self, frame: &Frame<'_>) -> io::Result<()> {
        let turn = self.lock();
        let turn = self.wait_while(turn, |turn| turn.busy || turn.urgent_waiting > 0);
        let mut buffer = self.take(turn);
        let sent = self.write(frame, &mut buffer);
        self.give_back(buffer);
        sent
    }

    /// Answers a Ping before any other frame, with a stamp read when the turn has come.
    pub(super) fn pong(&self, seq: u32, clock: StampClock) -> io::Result<()> {
        let mut turn = self.lock();
        turn.urgent_waiting += 1;
        let mut turn = self.wait_while(turn, |turn| turn.busy);
        turn.urgent_waiting -= 1;
        let mut buffer = self.take(turn);
        let sent = stamp(clock).and_then(|(cpu, stamp)| {
            self.write(&Frame::Pong(Pong { seq, cpu, stamp }), &mut buffer)
        });
        self.give_back(buffer);
        sent
    }

    fn lock(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while<'g>(
        &'g self,
        turn: MutexGuard<'g, Turn>,
        condition: impl FnMut(&mut Turn) -> bool,
    ) -> MutexGuard<'g, Turn> {
        self.changed.wait_while(turn, condition).unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, mut turn: MutexGuard<'_, Turn>) -> Vec<u8> {
        turn.busy = true;
        std::mem::take(&mut turn.buffer)
    }

    fn give_back(&self, buffer: Vec<u8>) {
        let mut turn = self.lock();
        turn.busy = false;
        turn.buffer = buffer;
        drop(turn);
        self.changed.notify_all();
    }

    fn write(&self, frame: &Frame<'_>, buffer: &mut Vec<u8>) -> io::Result<()> {
        if self.is_closed() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        buffer.clear();
        frame
            .encode(self.session, buffer)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let written = self.channel.write_all(buffer, &self.closed, PATIENCE);
        if written.is_err() {
            // Half a frame may be out: nothing that follows could be understood.
            self.close();
        }
        written
    }
}

/// Keeps [`current_cpu`] next to the stamp it belongs to.
fn stamp(clock: StampClock) -> io::Result<(u32, u64)> {
    let cpu = current_cpu();
    let stamp = clock.now().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("no {} clock on this machine", clock.name()),
        )
    })?;
    Ok((cpu, stamp))
}
