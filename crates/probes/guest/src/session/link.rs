//! One connection to an agent, on the recorder's side.

use super::{
    config::{Limits, SessionConfig},
    error::SessionError,
    sink::SinkError,
};
use crate::{
    bounds::{Account, Excess},
    exchange::{Bracket, Exchanger},
    proto::{
        CompactPlan, Decoder, Frame, Hello, OLDEST_VERSION, Role, Start, Started, Stats, VERSION,
        Welcome, Words,
    },
    serve::MetaFile,
    stamp::{StampClock, TscReading},
    transport::{Channel, Endpoint, Read1, connect},
};
use std::{
    hash::{BuildHasher, Hasher, RandomState},
    io,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use transect_model::untrusted::Untrusted;

/// Hello is repeated: on a virtio-serial port nobody tells when the agent opens it.
const HELLO_EVERY: Duration = Duration::from_millis(500);
/// Exchanges of a burst, and the most time one may take (a nested guest answers in milliseconds).
const BURST: u32 = 48;
const BURST_LIMIT: Duration = Duration::from_millis(400);
/// For an agent to begin to listen, and for one that listens to answer: who mistyped an address
/// should not wait as long as a slow guest may take to set its tracing up.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// One attempt to connect; between two it is looked whether the session should stop.
const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// Longest wait in one step, so that a wish to stop is seen soon.
const STEP: Duration = Duration::from_millis(50);
/// Characters of an agent's error that are kept.
const MAX_ERROR_CHARS: usize = 1000;
/// For a frame to be taken once the session is to stop.
const LAST_WRITE: Duration = Duration::from_secs(2);

/// What a step of a link can bring.
#[allow(clippy::large_enum_variant)] // One exists at a time.
#[derive(Debug)]
pub(super) enum Heard<'a> {
    Welcome(Welcome),
    Meta { name: String, more: bool, bytes: &'a [u8] },
    Started(Started),
    Data { cpu: u32, pages: &'a [u8] },
    Words(Words<'a>),
    Reading(TscReading),
    Bracket(Bracket),
    Stats(Stats),
    Stopped,
}

/// Takes what a step brings.
pub(super) type Listener<'l> = dyn FnMut(Heard<'_>) -> Result<(), SinkError> + 'l;

pub(super) struct Link<'c> {
    config: &'c SessionConfig,
    account: &'c mut Account,
    /// Is the session to stop?
    stop: &'c AtomicBool,
    channel: Channel,
    decoder: Decoder,
    session: u32,
    /// Of the protocol, as agreed.
    version: u8,
    exchanger: Exchanger,
    asks_for_stamps: bool,
    out: Vec<u8>,
    silence: Duration,
}

impl<'c> Link<'c> {
    /// Connects and shakes hands.
    pub(super) fn open(
        config: &'c SessionConfig,
        account: &'c mut Account,
        stop: &'c AtomicBool,
        limit: Duration,
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<(Self, Welcome), SessionError> {
        let opening_at = Instant::now();
        let connected_by = opening_at + limit.min(OPEN_LIMIT);
        let channel = connect_until(config, connected_by, is_unwanted)?;
        let session = new_session_number();
        let now = Instant::now();
        account.connect();
        let mut link = Link {
            config,
            account,
            stop,
            channel,
            decoder: Decoder::new(Role::Recorder { session }),
            session,
            version: OLDEST_VERSION,
            exchanger: Exchanger::new(config.host_clock, now),
            asks_for_stamps: false,
            out: Vec::new(),
            silence: Duration::ZERO,
        };
        let limit = limit.min(ANSWER_LIMIT);
        let welcome = link.shake_hands(Instant::now() + limit, limit, is_unwanted)?;
        Ok((link, welcome))
    }

    fn shake_hands(
        &mut self,
        deadline: Instant,
        limit: Duration,
        is_unwanted: &dyn Fn() -> bool,
    ) -> Result<Welcome, SessionError> {
        let mut hello_at = Instant::now();
        let mut found = None;
        while found.is_none() {
            let now = Instant::now();
            if is_unwanted() {
                return Err(self.cancelled());
            }
            if now > deadline {
                return Err(self.silent(limit, mend_silence(&self.config.spec.endpoint)));
            }
            if now >= hello_at {
                hello_at = now + HELLO_EVERY;
                self.send(&Frame::Hello(Hello {
                    min_version: OLDEST_VERSION,
                    max_version: VERSION,
                    recorder: self.config.recorder.clone(),
                }))?;
            }
            self.step(STEP, &mut |heard| {
                if let Heard::Welcome(welcome) = heard {
                    found = Some(welcome);
                }
                Ok(())
            })?;
        }
        let welcome = found.ok_or_else(|| self.closed())?;
        if !(OLDEST_VERSION..=VERSION).contains(&welcome.version) {
            return Err(self.unusable(format!(
                "agent {} uses protocol {}, this transect supports {OLDEST_VERSION} to {VERSION}; update the older one",
                welcome.agent.terminal(),
                welcome.version
            )));
        }
        self.version = welcome.version;
        Ok(welcome)
    }

    /// Has the guest an agent that can record compactly (whether its kernel can is told by Started)?
    pub(super) fn can_ask_for_compact(&self) -> bool {
        self.version >= 2
    }

    /// What the agent is to record compactly, and what it cannot because it is older.
    fn plan(&self) -> Option<(CompactPlan, Vec<String>)> {
        let plan = self.config.compact.as_ref().filter(|_| self.can_ask_for_compact())?;
        Some(plan.for_version(self.version))
    }

    /// Events and families that the agent does not know, because it is older.
    pub(super) fn unknown_to_agent(&self) -> Vec<String> {
        self.plan().map(|(_, left)| left).unwrap_or_default()
    }

    /// Asks for stamps of this clock from now on.
    pub(super) fn ask_for(&mut self, clock: StampClock) {
        if self.exchanger.clock() != clock {
            self.exchanger = Exchanger::new(clock, Instant::now());
        }
    }

    /// Exchanges clocks as fast as the channel allows, for a moment.
    pub(super) fn burst(
        &mut self,
        clock: StampClock,
        listener: &mut Listener<'_>,
    ) -> Result<(), SessionError> {
        let now = Instant::now();
        self.ask_for(clock);
        self.asks_for_stamps = true;
        self.exchanger.burst(BURST, now);
        let deadline = now + BURST_LIMIT;
        while self.exchanger.burst_left() > 0 && Instant::now() < deadline {
            self.step(STEP, listener)?;
        }
        self.exchanger.burst(0, Instant::now());
        Ok(())
    }

    /// Has recording started in the guest; returns what runs and its descriptive files.
    pub(super) fn start(
        &mut self,
        clock: StampClock,
        limit: Duration,
        is_unwanted: &dyn Fn() -> bool,
        listener: &mut Listener<'_>,
    ) -> Result<(Started, Vec<MetaFile>), SessionError> {
        self.send(&Frame::Start(Start {
            clock: clock.name().to_owned(),
            buffer_bytes: self.config.buffer_bytes,
            events: self.config.events.clone(),
            compact: self.plan().map(|(plan, _)| plan),
        }))?;
        let deadline = Instant::now() + limit;
        let mut meta = MetaFiles::default();
        let mut started = None;
        while started.is_none() {
            if is_unwanted() {
                return Err(self.cancelled());
            }
            if Instant::now() > deadline {
                let mend = "the agent did not answer the request to record; restart it";
                return Err(self.silent(limit, mend));
            }
            self.step(STEP, &mut |heard| match heard {
                Heard::Meta { name, more, bytes } => {
                    meta.add(name, more, bytes);
                    Ok(())
                }
                Heard::Started(what) => {
                    started = Some(what);
                    Ok(())
                }
                // Pages that came in the same read as Started are handed on in order.
                other => listener(other),
            })?;
        }
        let started = started.ok_or_else(|| self.closed())?;
        Ok((started, meta.files))
    }

    /// One bounded look: pings if one is due, reads once, hands on every whole frame.
    pub(super) fn step(
        &mut self,
        limit: Duration,
        listener: &mut Listener<'_>,
    ) -> Result<(), SessionError> {
        let now = Instant::now();
        let mut limit = limit;
        if self.asks_for_stamps {
            if self.exchanger.due_in(now).is_zero() {
                self.ping(now)?;
            }
            limit = limit.min(self.exchanger.due_in(now));
        }
        let waiting_at = Instant::now();
        let read = self.channel.read(self.decoder.room(), limit);
        // At once: whatever is in these bytes has arrived by now.
        let host_recv = self.config.host_clock.now().unwrap_or_default();
        match read.map_err(|source| self.broken(source))? {
            Read1::Bytes(bytes) => {
                self.decoder.filled(bytes);
                self.silence = Duration::ZERO;
                self.hand_on(host_recv, listener)
            }
            Read1::Nothing => {
                // If this program did not run meanwhile, nor could it hear.
                self.silence += waiting_at.elapsed().min(limit);
                Ok(())
            }
            Read1::Closed => Err(self.closed()),
        }
    }

    fn hand_on(&mut self, host_recv: u64, listener: &mut Listener<'_>) -> Result<(), SessionError> {
        let now = Instant::now();
        loop {
            let frame = match self.decoder.next() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(source) => {
                    return Err(SessionError::Proto { guest: name(self.config), source });
                }
            };
            self.account
                .admit(&frame)
                .map_err(|source| SessionError::Excess { guest: name(self.config), source })?;
            let heard = match frame {
                Frame::Pong(pong) => match self.exchanger.receive(pong, host_recv, now) {
                    Some(bracket) => Heard::Bracket(bracket),
                    None => continue,
                },
                Frame::Welcome(welcome) => Heard::Welcome(welcome),
                Frame::Meta { name, more, bytes } => Heard::Meta { name, more, bytes },
                Frame::Started(started) => Heard::Started(started),
                Frame::Data { cpu, pages } => Heard::Data { cpu, pages },
                Frame::Words(slice) => Heard::Words(slice),
                Frame::Reading(reading) => Heard::Reading(reading),
                Frame::Stats(stats) => Heard::Stats(stats),
                Frame::Stopped => Heard::Stopped,
                Frame::Error { text } => {
                    let text = text.cut(MAX_ERROR_CHARS);
                    return Err(SessionError::Refused { guest: name(self.config), text });
                }
                // The agent ends the session, or echoes what only a recorder says.
                Frame::Bye
                | Frame::Hello(_)
                | Frame::Start(_)
                | Frame::Ping { .. }
                | Frame::Stop => return Err(SessionError::Closed { guest: name(self.config) }),
            };
            listener(heard)
                .map_err(|source| SessionError::Sink { guest: name(self.config), source })?;
        }
    }

    fn ping(&mut self, now: Instant) -> Result<(), SessionError> {
        let Some(host_send) = self.config.host_clock.now() else { return Ok(()) };
        let seq = self.exchanger.send(host_send, now);
        self.send(&Frame::Ping { seq, clock: self.exchanger.clock() })
    }

    pub(super) fn send(&mut self, frame: &Frame<'_>) -> Result<(), SessionError> {
        self.out.clear();
        let guest = || name(self.config);
        frame
            .encode(self.session, &mut self.out)
            .map_err(|source| SessionError::Proto { guest: guest(), source })?;
        // A guest that takes nothing does not hold up the end.
        let written = match self.stop.load(Ordering::Relaxed) {
            true => self.channel.write_all(&self.out, &AtomicBool::new(false), LAST_WRITE),
            false => self.channel.write_all(&self.out, self.stop, self.config.limits.stall),
        };
        written.map_err(|source| match source.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                SessionError::Closed { guest: guest() }
            }
            io::ErrorKind::TimedOut => {
                self.silent(self.config.limits.stall, "the guest is paused or its agent hangs")
            }
            _ => self.broken(source),
        })
    }

    /// How long it was waited in vain for the agent since it was heard. While the sink takes its time, what
    /// the agent says waits in the channel: that is no silence.
    pub(super) fn silent_for(&self) -> Duration {
        self.silence
    }

    /// Silence up to now does not count.
    pub(super) fn forgive_silence(&mut self) {
        self.silence = Duration::ZERO;
    }

    /// When (host's trace clock) the Ping of this number was sent.
    pub(super) fn sent_at(&self, seq: u32) -> Option<u64> {
        self.exchanger.sent_at(seq)
    }

    /// What the guest has used of its bounds.
    pub(super) fn account(&mut self) -> &mut Account {
        self.account
    }

    /// The session's error for a bound.
    pub(super) fn excess(&self, source: Excess) -> SessionError {
        SessionError::Excess { guest: name(self.config), source }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.config.limits
    }

    pub(super) fn silent(&self, waited: Duration, mend: &'static str) -> SessionError {
        SessionError::Silent { guest: name(self.config), secs: waited.as_secs(), mend }
    }

    pub(super) fn refused(&self, text: Untrusted<String>) -> SessionError {
        SessionError::Refused { guest: name(self.config), text }
    }

    pub(super) fn unusable(&self, why: String) -> SessionError {
        SessionError::Unusable { guest: name(self.config), why }
    }

    fn closed(&self) -> SessionError {
        SessionError::Closed { guest: name(self.config) }
    }

    fn cancelled(&self) -> SessionError {
        SessionError::Cancelled { guest: name(self.config) }
    }

    fn broken(&self, source: io::Error) -> SessionError {
        SessionError::Channel { guest: name(self.config), source }
    }
}

/// How messages call the guest.
pub(super) fn name(config: &SessionConfig) -> String {
    match &config.spec.name {
        Some(name) => format!("{name} ({})", config.spec.endpoint),
        None => config.spec.endpoint.to_string(),
    }
}

/// Connects, trying again while the agent or its guest may still be starting.
fn connect_until(
    config: &SessionConfig,
    deadline: Instant,
    is_unwanted: &dyn Fn() -> bool,
) -> Result<Channel, SessionError> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match connect(&config.spec.endpoint, left.min(CONNECT_LIMIT)) {
            Ok(channel) => return Ok(channel),
            Err(error) if !error.is_transient() || left < HELLO_EVERY || is_unwanted() => {
                return Err(error.into());
            }
            Err(_) => std::thread::sleep(config.limits.reconnect_min),
        }
    }
}

fn mend_silence(endpoint: &Endpoint) -> &'static str {
    match endpoint {
        Endpoint::Vsock { .. } => "check that the listener on this port is transect-agent",
        Endpoint::VirtioSerial(_) => {
            "check that 'transect-agent --virtio-serial' runs in the guest, on the port of this chardev"
        }
        Endpoint::Tcp(_) => "check that the listener on this port is transect-agent",
    }
}

/// A number that no earlier session on this port is likely to have had. Never 0.
fn new_session_number() -> u32 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d]).max(1)
}

/// Puts descriptive files together again.
#[derive(Default)]
pub(super) struct MetaFiles {
    pub(super) files: Vec<MetaFile>,
    goes_on: bool,
}

impl MetaFiles {
    pub(super) fn add(&mut self, name: String, more: bool, bytes: &[u8]) {
        match self.files.last_mut() {
            Some((last, content)) if self.goes_on && *last == name => {
                content.extend_from_slice(bytes);
            }
            _ => self.files.push((name, bytes.to_vec())),
        }
        self.goes_on = more;
    }
}
