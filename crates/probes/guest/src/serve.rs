//! The agent's side of a session: answers a recorder over one channel, until it goes away.
//!
//! Two threads: the caller's reads frames and answers Pings at once, a second one moves pages.
//! Both write through one gate that lets a Pong pass before the next Data frame, so that an
//! answer waits for at most one frame of 64 KiB plus what the kernel has already queued.
//!
//! What is traced comes from a [`TraceSource`]: tracefs in the agent, made-up pages in tests.

mod gate;
mod pages;

pub use pages::PageOut;

use crate::{
    proto::{
        Decoder, Frame, Hello, MachineFacts, OLDEST_VERSION, ProtoError, Role, SETTINGS_VERSION,
        Start, Started, Stats, VERSION, Welcome, is_settings,
    },
    stamp::{StampClock, TscReading},
    transport::{Channel, Read1},
};
use gate::Gate;
use std::{
    io,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// A recorder pings five times a second; one that is silent for so long is gone.
const RECORDER_SILENCE: Duration = Duration::from_secs(60);
/// How long a connection may take to say Hello.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// How long a recorder may take to read why its session ended.
const LINGER: Duration = Duration::from_secs(1);
/// How often flags set by others are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Between two Stats frames.
const STATS_EVERY: Duration = Duration::from_millis(500);
/// Bytes of a descriptive file in one Meta frame; the name takes the rest.
const META_PIECE_BYTES: usize = 48 * 1024;
/// CPUs in one Stats frame.
const STATS_CPUS: usize = 1000;

/// A descriptive file: path below the tracing directory and content.
pub type MetaFile = (String, Vec<u8>);

/// A machine that can be traced.
pub trait TraceSource {
    /// The state of a recording that was started.
    type Run: TraceRun;

    /// What the recorder is told about the machine.
    fn facts(&mut self) -> MachineFacts;

    /// Sets everything up, for a recorder that speaks that version of the protocol. It may record already;
    /// nothing is taken before [`TraceRun::begin`].
    ///
    /// # Errors
    /// One sentence for the user: what, where, what to do.
    fn prepare(&mut self, start: &Start, version: u8) -> Result<Prepared<Self::Run>, String>;
}

/// A recording that is ready to begin.
#[derive(Debug)]
pub struct Prepared<R> {
    /// What was really set up.
    pub started: Started,
    /// Everything needed to decode the pages.
    pub meta: Vec<MetaFile>,
    /// The recording. Dropping it must undo everything that was set up.
    pub run: R,
}

/// A recording in progress. Dropping it cleans up.
pub trait TraceRun: Send {
    /// Begins recording, where that was not done before.
    ///
    /// # Errors
    /// As [`TraceSource::prepare`].
    fn begin(&mut self) -> Result<(), String>;

    /// Moves what is recorded into `out`, waiting up to `wait` for something to move. Returns true
    /// if everything recorded before the call was moved, false if it stopped in between so that
    /// the caller can look after other things.
    ///
    /// # Errors
    /// What `out` reports (the channel is gone) or one of the source itself.
    fn pump(&mut self, out: &mut PageOut<'_>, wait: Duration) -> io::Result<bool>;

    /// Counters so far.
    fn stats(&mut self) -> Stats;

    /// Ends recording, moves the rest, and gives the descriptive files that are known only now.
    ///
    /// # Errors
    /// As [`TraceRun::pump`].
    fn finish(&mut self, out: &mut PageOut<'_>) -> io::Result<Vec<MetaFile>>;
}

/// How a session ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// The recorder said Bye.
    Bye,
    /// The recorder went away, or never said Hello.
    Gone,
    /// The agent was told to end.
    Shutdown,
    /// It broke, for this reason.
    Broken(String),
}

/// A recorder that said Hello and waits for an answer.
pub struct Caller<'a> {
    session: Session<'a>,
    hello: Hello,
}

impl<'a> Caller<'a> {
    /// Waits for a recorder's Hello on `channel`. `agent` is the agent's version; `shutdown` ends
    /// the wait and the session from outside.
    ///
    /// # Errors
    /// [`End`] if nobody said Hello within 10 s, or the channel closed.
    pub fn wait(
        channel: &'a Channel,
        agent: &'a str,
        shutdown: &'a AtomicBool,
    ) -> Result<Self, End> {
        let mut session = Session {
            channel,
            decoder: Decoder::new(Role::Agent),
            agent,
            shutdown,
            heard_at: Instant::now(),
        };
        match session.first_hello() {
            Ok(Some(hello)) => Ok(Caller { session, hello }),
            Ok(None) => Err(End::Gone),
            Err(left) => Err(session.leave(left)),
        }
    }

    /// Tells the recorder that another one is being served.
    pub fn refuse_busy(self) {
        self.session.tell("the agent is busy with another recorder; end that one first");
    }

    /// Serves the recorder to its end.
    pub fn serve<S: TraceSource>(mut self, source: &mut S) -> End {
        match self.session.run(&self.hello, source) {
            Ok(end) => end,
            Err(left) => self.session.leave(left),
        }
    }
}

/// Why a session is left early.
enum Break {
    End(End),
    /// The recorder is there and should know.
    Tell(String),
}

impl From<io::Error> for Break {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted => Break::End(End::Gone),
            _ => Break::End(End::Broken(format!("channel failed: {error}"))),
        }
    }
}

impl From<ProtoError> for Break {
    fn from(error: ProtoError) -> Self {
        Break::Tell(format!("protocol error in data from the recorder: {error}"))
    }
}

/// A frame the session loop acts on, free of the decoder's buffer.
enum Order {
    Hello(Hello),
    Start(Box<Start>),
    Ping(u32, StampClock),
    Stop,
    Bye,
}

struct Session<'a> {
    channel: &'a Channel,
    decoder: Decoder,
    agent: &'a str,
    shutdown: &'a AtomicBool,
    heard_at: Instant,
}

impl Session<'_> {
    fn run<S: TraceSource>(&mut self, hello: &Hello, source: &mut S) -> Result<End, Break> {
        let version = self.agree(hello)?;
        let gate = Gate::new(self.channel, self.decoder.session().unwrap_or_default());
        gate.send(&self.welcome(version, source))?;
        loop {
            match self.next_order(&gate)? {
                Order::Hello(_) => gate.send(&self.welcome(version, source))?,
                Order::Ping(seq, clock) => gate.pong(seq, clock)?,
                Order::Start(start) => return self.record(source, &start, version, &gate),
                Order::Stop => gate.send(&Frame::Stopped)?,
                Order::Bye => return Ok(End::Bye),
            }
        }
    }

    fn first_hello(&mut self) -> Result<Option<Hello>, Break> {
        let deadline = Instant::now() + HELLO_PATIENCE;
        while Instant::now() < deadline {
            if let Some(Order::Hello(hello)) = self.poll_order()? {
                return Ok(Some(hello));
            }
        }
        Ok(None)
    }

    /// The newest version that both sides speak.
    fn agree(&self, hello: &Hello) -> Result<u8, Break> {
        let newest = hello.max_version.min(VERSION);
        if newest >= hello.min_version.max(OLDEST_VERSION) {
            return Ok(newest);
        }
        Err(Break::Tell(format!(
            "agent {} supports protocol {OLDEST_VERSION} to {VERSION}, recorder {} supports {} to {}; \
             update the older one",
            self.agent, hello.recorder, hello.min_version, hello.max_version
        )))
    }

    fn welcome<S: TraceSource>(&self, version: u8, source: &mut S) -> Frame<'static> {
        Frame::Welcome(Welcome { version, agent: self.agent.into(), facts: source.facts() })
    }

    fn record<S: TraceSource>(
        &mut self,
        source: &mut S,
        start: &Start,
        version: u8,
        gate: &Gate<'_>,
    ) -> Result<End, Break> {
        // Before the first event: nothing lies beyond what is known of the clock.
        let early = TscReading::take(StampClock::Mono);
        let prepared = source.prepare(start, version).map_err(Break::Tell)?;
        let mut run = prepared.run;
        let clock = StampClock::from_name(prepared.started.clock.raw_for_storage())
            .filter(|_| version >= 2);
        let mut readings = Readings { clock, due_at: Instant::now() };
        send_meta(gate, &prepared.meta, version)?;
        gate.send(&Frame::Started(prepared.started))?;
        if let Some(early) = early.filter(|reading| clock == Some(reading.clock)) {
            gate.send(&Frame::Reading(early))?;
        }
        readings.send_if_due(gate)?;
        run.begin().map_err(Break::Tell)?;
        let flow = Flow::default();
        thread::scope(|scope| {
            scope.spawn(|| flow.done(gate, move_pages(run, gate, &flow, readings, version)));
            let end = self.follow_orders(gate, &flow);
            flow.is_stopping.store(true, Ordering::Relaxed);
            // Whatever the mover is writing has no reader any more.
            gate.close();
            end
        })
    }

    fn follow_orders(&mut self, gate: &Gate<'_>, flow: &Flow) -> Result<End, Break> {
        loop {
            match self.next_order(gate)? {
                Order::Ping(seq, clock) => {
                    flow.pinged.store(seq, Ordering::Relaxed);
                    gate.pong(seq, clock)?;
                }
                Order::Stop => flow.is_stopping.store(true, Ordering::Relaxed),
                Order::Bye => return Ok(End::Bye),
                // The same session's Hello again: it was answered.
                Order::Hello(_) => {}
                Order::Start(_) => {
                    return Err(Break::Tell("protocol error: second Start in one session".into()));
                }
            }
        }
    }

    /// The next order; ends the session if the recorder is silent or gone.
    fn next_order(&mut self, gate: &Gate<'_>) -> Result<Order, Break> {
        loop {
            if let Some(order) = self.poll_order()? {
                if self.decoder.session() != Some(gate.session()) {
                    return Err(Break::End(End::Gone));
                }
                return Ok(order);
            }
            if gate.is_closed() {
                return Err(Break::End(End::Gone));
            }
            if self.heard_at.elapsed() > RECORDER_SILENCE {
                let secs = RECORDER_SILENCE.as_secs();
                return Err(Break::End(End::Broken(format!(
                    "no data from the recorder for {secs} s"
                ))));
            }
        }
    }

    /// One look for an order, of bounded time.
    fn poll_order(&mut self) -> Result<Option<Order>, Break> {
        if self.shutdown.load(Ordering::Relaxed) {
            return Err(Break::End(End::Shutdown));
        }
        if let Some(frame) = self.decoder.next()? {
            return order(frame);
        }
        match self.channel.read(self.decoder.room(), LOOK_EVERY)? {
            Read1::Bytes(bytes) => {
                self.decoder.filled(bytes);
                self.heard_at = Instant::now();
            }
            Read1::Nothing => {}
            Read1::Closed => return Err(Break::End(End::Gone)),
        }
        Ok(None)
    }

    fn leave(&self, left: Break) -> End {
        match left {
            Break::End(end) => end,
            Break::Tell(text) => {
                self.tell(&text);
                End::Broken(text)
            }
        }
    }

    fn tell(&self, text: &str) {
        let Some(session) = self.decoder.session() else { return };
        let gate = Gate::new(self.channel, session);
        // The end of this session is reported by the agent itself as well.
        if gate.send(&Frame::Error { text: text.into() }).is_ok() {
            self.linger();
        }
    }

    /// Reads on until the recorder has closed: closing with bytes unread would reset the
    /// connection, and the recorder might see that before the error's text.
    fn linger(&self) {
        let deadline = Instant::now() + LINGER;
        let mut unread = [0; 4096];
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            if !matches!(self.channel.read(&mut unread, left), Ok(Read1::Bytes(_) | Read1::Nothing))
            {
                return;
            }
        }
    }
}

fn order(frame: Frame<'_>) -> Result<Option<Order>, Break> {
    Ok(Some(match frame {
        Frame::Hello(hello) => Order::Hello(hello),
        Frame::Start(start) => Order::Start(Box::new(start)),
        Frame::Ping { seq, clock } => Order::Ping(seq, clock),
        Frame::Stop => Order::Stop,
        Frame::Bye => Order::Bye,
        Frame::Error { text } => {
            return Err(Break::End(End::Broken(format!(
                "the recorder ended the session: {}",
                text.terminal()
            ))));
        }
        other => {
            return Err(Break::Tell(format!(
                "protocol error: the recorder sent frame type {}, which only agents send",
                other.kind()
            )));
        }
    }))
}

/// What the two threads of a recording tell each other.
#[derive(Default)]
struct Flow {
    /// Number of the last Ping received; 0 before the first.
    pinged: AtomicU32,
    is_stopping: AtomicBool,
}

impl Flow {
    /// The mover's end: a failure is told to the recorder, or closes the gate if it is gone.
    fn done(&self, gate: &Gate<'_>, moved: io::Result<()>) {
        let Err(error) = moved else { return };
        let text = format!("the agent cannot read its trace: {error}");
        if gate.is_closed() || gate.send(&Frame::Error { text: text.into() }).is_err() {
            gate.close();
        }
    }
}

/// The machine's clock beside its TSC, sent every [`TscReading::EVERY`].
struct Readings {
    /// `None`: this session's recorder does not know them.
    clock: Option<StampClock>,
    due_at: Instant,
}

impl Readings {
    /// Sends one if it is time. Returns how long it is until the next: no round waits longer.
    fn send_if_due(&mut self, gate: &Gate<'_>) -> io::Result<Duration> {
        let now = Instant::now();
        if now >= self.due_at {
            self.due_at = next_due(self.due_at, now);
            self.send(gate)?;
        }
        Ok(self.due_at.saturating_duration_since(now))
    }

    fn send(&mut self, gate: &Gate<'_>) -> io::Result<()> {
        match self.clock.and_then(TscReading::take) {
            Some(reading) => gate.send(&Frame::Reading(reading)),
            None => Ok(()),
        }
    }
}

/// One that comes late does not put off those after it, unless they would be late as well.
fn next_due(due_at: Instant, now: Instant) -> Instant {
    let next = due_at + TscReading::EVERY;
    if next > now { next } else { now + TscReading::EVERY }
}

fn move_pages<R: TraceRun>(
    mut run: R,
    gate: &Gate<'_>,
    flow: &Flow,
    mut readings: Readings,
    version: u8,
) -> io::Result<()> {
    let mut out = PageOut::new(gate);
    send_stats(gate, run.stats(), None)?;
    let mut stats_at = Instant::now();
    // One that came before anything was recorded tells nothing when it is drained.
    let before = flow.pinged.load(Ordering::Relaxed);
    let mut drained = None;
    while !flow.is_stopping.load(Ordering::Relaxed) {
        // Read before draining: what was recorded before this Ping came is drained after.
        let pinged = flow.pinged.load(Ordering::Relaxed);
        let wait = readings.send_if_due(gate)?;
        let is_drained = run.pump(&mut out, wait)?;
        out.flush()?;
        let mut is_first = false;
        if is_drained && pinged != before {
            is_first = drained.is_none();
            drained = Some(pinged);
        }
        // The first one is told at once: if this machine is lost now, its events up to there are whole.
        if is_first || stats_at.elapsed() >= STATS_EVERY {
            stats_at = Instant::now();
            send_stats(gate, run.stats(), drained)?;
        }
    }
    let meta = run.finish(&mut out)?;
    // After the last event: nothing lies beyond what is known of the clock.
    readings.send(gate)?;
    out.flush()?;
    send_meta(gate, &meta, version)?;
    send_stats(gate, run.stats(), drained)?;
    // Gone before the recorder is told so, and whatever happens to the channel.
    drop(run);
    gate.send(&Frame::Stopped)
}

/// A recorder of an older version takes a file that it does not know for a part of the trace.
fn send_meta(gate: &Gate<'_>, files: &[MetaFile], version: u8) -> io::Result<()> {
    let is_sent = |name: &str| version >= SETTINGS_VERSION || !is_settings(name);
    for (name, content) in files.iter().filter(|(name, _)| is_sent(name)) {
        let mut rest = content.as_slice();
        loop {
            let (bytes, after) = rest.split_at(rest.len().min(META_PIECE_BYTES));
            rest = after;
            gate.send(&Frame::Meta { name: name.clone(), more: !rest.is_empty(), bytes })?;
            if rest.is_empty() {
                break;
            }
        }
    }
    Ok(())
}

fn send_stats(gate: &Gate<'_>, stats: Stats, drained_seq: Option<u32>) -> io::Result<()> {
    if stats.cpus.is_empty() {
        return gate.send(&Frame::Stats(Stats { drained_seq, ..stats }));
    }
    for cpus in stats.cpus.chunks(STATS_CPUS) {
        let agent_cpu_ns = stats.agent_cpu_ns;
        gate.send(&Frame::Stats(Stats { drained_seq, agent_cpu_ns, cpus: cpus.to_vec() }))?;
    }
    Ok(())
}
