//! A connection that gives its other end so much time and no more, in the clear or by TLS.
//!
//! A timeout for each read would let a client send one byte a minute for ever. So every part of an
//! exchange has a deadline, and an answer a least speed at which it must be taken.

use super::outbox::{Outbox, send_now};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// After so long waiting for a client it is looked at how fast it takes an answer; also the longest time without
/// any of it taken.
const LOOK: Duration = Duration::from_secs(15);
/// What has to be taken in that time, bytes.
const LEAST_BYTES: u64 = 240 << 10;
/// What is read after a refusal, so that the refusal arrives.
const MAX_REST_BYTES: usize = 4 << 20;
/// How long that may take.
const REST: Duration = Duration::from_millis(1500);

/// Part of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing has been sent yet.
    Idle,
    /// The head has begun.
    Head,
    /// The head is whole.
    Body,
    /// The answer.
    Answer,
}

impl Phase {
    fn patience(self) -> Duration {
        Duration::from_secs(match self {
            Phase::Idle => 60,
            Phase::Head => 10,
            Phase::Body => 30,
            // While it is being made nobody waits for the client.
            Phase::Answer => 3600,
        })
    }
}

/// Who has a deadline for each phase.
pub(crate) trait Paced {
    /// A phase begins.
    fn begin(&mut self, phase: Phase);
}

/// For tests that read from memory.
impl Paced for &[u8] {
    fn begin(&mut self, _phase: Phase) {}
}

/// A connection in the clear.
pub(crate) struct Plain<'s> {
    stream: &'s TcpStream,
    begun: Instant,
    patience: Duration,
    /// How long the client was waited for, and what was sent, since its speed was looked at.
    waited: (Duration, u64),
    /// Takes what the client does not take at once, while there is one.
    outbox: Option<Outbox>,
}

impl<'s> Plain<'s> {
    pub(crate) fn new(stream: &'s TcpStream) -> Self {
        let (begun, patience) = (Instant::now(), Phase::Idle.patience());
        Plain { stream, begun, patience, waited: (Duration::ZERO, 0), outbox: None }
    }

    /// The time that is left, never zero.
    fn left(&self) -> io::Result<Duration> {
        let left = self.patience.checked_sub(self.begun.elapsed());
        left.filter(|left| !left.is_zero()).ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl Paced for Plain<'_> {
    fn begin(&mut self, phase: Phase) {
        (self.begun, self.patience) = (Instant::now(), phase.patience());
        self.waited = (Duration::ZERO, 0);
    }
}

impl Read for Plain<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // A process that was stopped and goes on is told so in place of what it waited for (signal(7)).
        loop {
            self.stream.set_read_timeout(Some(self.left()?))?;
            match (&mut &*self.stream).read(to) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Plain<'_> {
    /// Writes without waiting for the client, as long as the outbox has room.
    fn write_by(&mut self, outbox: &mut Outbox, bytes: &[u8]) -> io::Result<usize> {
        outbox.send_now(self.stream)?;
        if outbox.is_empty()
            && let Some(sent) = send_now(self.stream, bytes)?
        {
            return Ok(sent);
        }
        if outbox.push(bytes) {
            return Ok(bytes.len());
        }
        outbox.pause()?;
        self.feed(outbox)?;
        let written = self.write_through(bytes)?;
        outbox.resume()?;
        Ok(written)
    }

    /// Writes all that is in the outbox, at the client's speed.
    fn feed(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        loop {
            let next = outbox.next()?;
            if next.is_empty() {
                return Ok(());
            }
            let written = self.write_through(next)?;
            outbox.advance(written);
        }
    }

    /// Writes at the client's speed.
    fn write_through(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.left()?;
            self.stream.set_write_timeout(Some(LOOK))?;
            // Small enough that the speed is looked at again and again.
            let begun = Instant::now();
            let result = (&mut &*self.stream).write(&bytes[..bytes.len().min(256 << 10)]);
            let (waited, sent) = &mut self.waited;
            *waited += begun.elapsed();
            *sent += result.as_ref().map_or(0, |written| u64::try_from(*written).unwrap_or(0));
            if *waited >= LOOK {
                if *sent < LEAST_BYTES {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.waited = (Duration::ZERO, 0);
            }
            match result {
                // What was waited until then counts.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

impl Write for Plain<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(mut outbox) = self.outbox.take() else { return self.write_through(bytes) };
        let written = self.write_by(&mut outbox, bytes);
        self.outbox = Some(outbox);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connection by TLS.
pub(crate) struct Secure<'s> {
    plain: Plain<'s>,
    tls: rustls::ServerConnection,
}

impl<'s> Secure<'s> {
    pub(crate) fn new(
        stream: &'s TcpStream,
        config: &Arc<rustls::ServerConfig>,
    ) -> Result<Self, rustls::Error> {
        let tls = rustls::ServerConnection::new(Arc::clone(config))?;
        Ok(Secure { plain: Plain::new(stream), tls })
    }
}

impl Paced for Secure<'_> {
    fn begin(&mut self, phase: Phase) {
        self.plain.begin(phase);
    }
}

impl Read for Secure<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.tls, &mut self.plain).read(to)
    }
}

impl Write for Secure<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        rustls::Stream::new(&mut self.tls, &mut self.plain).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        rustls::Stream::new(&mut self.tls, &mut self.plain).flush()
    }
}

/// Either.
pub(crate) trait Connection: Read + Write + Paced {
    /// Says that nothing more comes.
    fn close(&mut self);

    /// What is written from now on goes to the outbox if the client does not take it at once.
    fn hold(&mut self, outbox: Outbox);

    /// The answer is made: its client is fed with what it has not taken yet.
    fn let_go(&mut self) -> io::Result<()>;
}

impl Connection for Plain<'_> {
    fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn hold(&mut self, outbox: Outbox) {
        self.outbox = Some(outbox);
    }

    fn let_go(&mut self) -> io::Result<()> {
        let Some(mut outbox) = self.outbox.take() else { return Ok(()) };
        outbox.end_making();
        self.feed(&mut outbox)
    }
}

impl Connection for Secure<'_> {
    fn close(&mut self) {
        self.tls.send_close_notify();
        let _ = self.tls.complete_io(&mut self.plain);
        self.plain.close();
    }

    fn hold(&mut self, outbox: Outbox) {
        self.plain.hold(outbox);
    }

    fn let_go(&mut self) -> io::Result<()> {
        self.plain.let_go()
    }
}

/// Reads what a client still sends that was refused: closed at once, its system would throw the
/// answer away with the rest.
pub(crate) fn let_it_finish(stream: &TcpStream) {
    let begun = Instant::now();
    let (mut rest, mut buffer) = (0, [0; 8 << 10]);
    while rest < MAX_REST_BYTES {
        let Some(left) = REST.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else {
            return;
        };
        if stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match (&mut &*stream).read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(len) => rest += len,
        }
    }
}
