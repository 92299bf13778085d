//! The recorder's side: one thread per guest, from connect to Bye, across reconnects.
//!
//! **Concepts.** A *link* is one connection; it lives until the guest dies, stalls or says it
//! stopped. A *session* is what the user asked for with one `--guest`: it makes a new link whenever
//! the old one broke, with growing pauses, until it is told to stop. Between two links lies a
//! [`Gap`]: events of that guest are missing there, and only there.
//!
//! **Where things go.** The session's thread hands everything to a [`GuestSink`]: what was set up,
//! pages, clock brackets, gaps, counters. The sink lives in that thread, so nothing is queued; a
//! slow disk slows the guest's channel, the guest's ring buffer fills, and its kernel counts what
//! it loses.
//!
//! **Deadlines.** Each wait is bounded by [`Limits`]; [`GuestSession::stop`] returns within
//! `stop_idle` after the guest's last sign of life and `stop_total` at the latest, beside what the sink
//! takes: while it does not return, nobody listens, and the guest is not silent. After
//! [`GuestSession::hurry`] it is `stop_hurried`.
//!
//! **Bounds.** Every frame passes the guest's [`Bounds`] first. A guest that exceeds one is cut off: its session
//! ends with [`SessionError::Excess`], everything stored before is complete, and the rest is a [`Gap`].

mod link;
mod run;

use crate::{
    bounds::{Bounds, Excess},
    exchange::Bracket,
    proto::{CompactPlan, CpuStats, EventRequest, MachineFacts, ProtoError, Started, Words},
    serve::MetaFile,
    stamp::{StampClock, TscReading},
    transport::{ConnectError, GuestSpec},
};
use std::{
    io,
    sync::{
        Arc, Condvar, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use thiserror::Error;
use transect_model::untrusted::Untrusted;

/// An error of the recording side (disk full, …).
pub type SinkError = Box<dyn std::error::Error + Send + Sync>;

/// Why no events of the guest exist in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GapCause {
    /// The connection broke: the guest died or rebooted, its agent or its VMM ended.
    Disconnected,
    /// The connection stood, but nothing came for longer than [`Limits::stall`].
    Stalled,
    /// It sent what it may not send, or more than its [`Bounds`]: it is recorded no more.
    CutOff,
    /// The host recorded already, and the guest did not yet.
    NotStarted,
}

impl GapCause {
    /// The word in manifest and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            GapCause::Disconnected => "guest_disconnected",
            GapCause::Stalled => "guest_stalled",
            GapCause::CutOff => "guest_cut_off",
            GapCause::NotStarted => "guest_not_started",
        }
    }
}

/// An interval without events of the guest, in raw stamps of the host's trace clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Everything up to here has arrived.
    pub from: u64,
    /// From here on it arrives again; none if it never did.
    pub to: Option<u64>,
    /// Why.
    pub cause: GapCause,
}

/// What a link set up, before its first page.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// The machine.
    pub facts: &'a MachineFacts,
    /// The agent's version.
    pub agent: &'a Untrusted<String>,
    /// What is recorded. With [`Started::compact`], slices of logs come ([`GuestSink::words`]), else
    /// pages.
    pub started: &'a Started,
    /// Descriptive files: formats, page header, …; of a compact guest what [`crate::describe`] reads.
    pub meta: &'a [MetaFile],
    /// True if pages go on where the last link stopped (same boot, same formats); false for the
    /// first link and after a reboot, where they need a source of their own. Always false for a
    /// compact guest: each link has logs of its own, which begin at position 0.
    pub continues: bool,
    /// Does this boot's clock go on from the last link? False for the first one, and after a reboot.
    pub same_boot: bool,
}

/// Takes what a guest sends. All calls come from the session's thread, in order; nothing but notes
/// comes before the first [`GuestSink::begin`].
pub trait GuestSink: Send {
    /// A link records now.
    ///
    /// # Errors
    /// Ends the session.
    fn begin(&mut self, beginning: &Beginning<'_>) -> Result<(), SinkError>;

    /// Whole sub-buffers of one CPU.
    ///
    /// # Errors
    /// Ends the session.
    fn pages(&mut self, cpu: u32, pages: &[u8]) -> Result<(), SinkError>;

    /// A slice of a log of a compact guest; returns how many events it holds. Slices of a log
    /// come in order; a gap between two is lost data.
    ///
    /// # Errors
    /// Ends the session. By default, because whoever asks for compact recording must take it.
    fn words(&mut self, slice: &Words<'_>) -> Result<u64, SinkError> {
        let bytes = slice.words.len();
        Err(format!("received {bytes} bytes of compact records without a consumer").into())
    }

    /// The guest's clock read beside its TSC.
    ///
    /// # Errors
    /// Ends the session.
    fn reading(&mut self, reading: &TscReading) -> Result<(), SinkError> {
        let _ = reading;
        Ok(())
    }

    /// One clock exchange.
    ///
    /// # Errors
    /// Ends the session.
    fn bracket(&mut self, bracket: &Bracket) -> Result<(), SinkError>;

    /// Events are missing here.
    ///
    /// # Errors
    /// Ends the session.
    fn gap(&mut self, gap: &Gap) -> Result<(), SinkError>;

    /// The source begun last is complete; `meta` are descriptive files known only at the end (of a
    /// compact guest: names and totals for [`crate::describe`]), empty if the guest was lost. `cpus`
    /// are the kernel's counters for that source.
    ///
    /// # Errors
    /// Ends the session.
    fn end(&mut self, meta: &[MetaFile], cpus: &[CpuStats]) -> Result<(), SinkError>;

    /// Something worth a line to the user, who watches `guest` record. Texts of the guest in it are escaped.
    fn note(&mut self, text: &str);
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For the first link, connect to Started.
    pub start: Duration,
    /// Without a sign of life while recording, until the link is given up. Generous: as long as
    /// the link stands, the events of a paused or starved guest wait in its own buffers; giving it
    /// up throws them away.
    pub stall: Duration,
    /// After Stop, without a sign of life since.
    pub stop_idle: Duration,
    /// After Stop, in all.
    pub stop_total: Duration,
    /// After Stop, in all, once the owner is in a hurry.
    pub stop_hurried: Duration,
    /// First pause before a reconnect; doubles up to `reconnect_max`.
    pub reconnect_min: Duration,
    /// Longest pause before a reconnect.
    pub reconnect_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            start: Duration::from_secs(10),
            stall: Duration::from_secs(30),
            stop_idle: Duration::from_secs(3),
            stop_total: Duration::from_secs(20),
            stop_hurried: Duration::from_secs(2),
            reconnect_min: Duration::from_millis(100),
            reconnect_max: Duration::from_secs(2),
        }
    }
}

/// What to record of one guest.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Where it is.
    pub spec: GuestSpec,
    /// The recorder's version, for messages on the other side.
    pub recorder: String,
    /// The host's trace clock: what brackets are stamped with.
    pub host_clock: StampClock,
    /// Trace clocks for the guest, best first; the first it offers is taken.
    pub clocks: Vec<StampClock>,
    /// Ring buffer per CPU, bytes.
    pub buffer_bytes: u64,
    /// The events.
    pub events: Vec<EventRequest>,
    /// To be recorded compactly instead where the guest can; clocks, buffer and events above are then
    /// for a guest that cannot (or whose agent is older), which [`Started::why_full`] tells.
    pub compact: Option<CompactPlan>,
    /// Time limits.
    pub limits: Limits,
    /// What the guest may use of this machine.
    pub bounds: Bounds,
}

/// Why a guest cannot be recorded (any more).
#[derive(Debug, Error)]
pub enum SessionError {
    /// No channel.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The channel broke.
    #[error("guest {guest}: channel failed: {source}")]
    Channel {
        /// Which guest.
        guest: String,
        /// Why.
        source: io::Error,
    },
    /// The agent went away.
    #[error("guest {guest}: the agent closed the connection")]
    Closed {
        /// Which guest.
        guest: String,
    },
    /// Something is there but does not answer.
    #[error("guest {guest}: no data from the agent for {secs} s; {mend}")]
    Silent {
        /// Which guest.
        guest: String,
        /// How long it was waited for.
        secs: u64,
        /// What to do.
        mend: &'static str,
    },
    /// The stream makes no sense.
    #[error("guest {guest}: {source}")]
    Proto {
        /// Which guest.
        guest: String,
        /// What is wrong.
        source: ProtoError,
    },
    /// It sent what it may not send, or more than it may.
    #[error("guest {guest}: cut off: {source}; its recording ends here, the others go on")]
    Excess {
        /// Which guest.
        guest: String,
        /// What.
        source: Excess,
    },
    /// The agent cannot do what was asked.
    #[error("guest {guest}: {}", text.terminal())]
    Refused {
        /// Which guest.
        guest: String,
        /// One sentence of the guest.
        text: Untrusted<String>,
    },
    /// This recorder cannot use what the agent offers.
    #[error("guest {guest}: {why}")]
    Unusable {
        /// Which guest.
        guest: String,
        /// One sentence; texts of the guest in it are escaped.
        why: String,
    },
    /// It was stopped before it recorded.
    #[error("guest {guest}: stopped before its recording started")]
    Cancelled {
        /// Which guest.
        guest: String,
    },
    /// The recording side failed.
    #[error("guest {guest}: cannot store its events: {source}")]
    Sink {
        /// Which guest.
        guest: String,
        /// Why.
        source: SinkError,
    },
}

/// What a finished session says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Links made.
    pub links: u32,
    /// Gaps between them.
    pub gaps: u32,
    /// Bytes of pages received.
    pub bytes: u64,
    /// Events read in the guest.
    pub events: u64,
    /// Events its kernel lost.
    pub lost: u64,
    /// CPU time of the agent, ns.
    pub agent_cpu_ns: u64,
    /// Clock exchanges made.
    pub brackets: u64,
    /// Shortest round trip, in the unit of the host's clock.
    pub best_round_trip: Option<u64>,
    /// False if the guest was not there at the end, so that its last events are missing.
    pub complete: bool,
}

/// A look at a running session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Is a link recording?
    pub connected: bool,
    /// Bytes of pages received.
    pub bytes: u64,
    /// Events read in the guest, as of its last Stats.
    pub events: u64,
    /// Events its kernel lost, as of its last Stats.
    pub lost: u64,
}

/// Shared between the session's thread and its owner.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Is the owner in a hurry?
    hurried: AtomicBool,
    /// Has a link recorded?
    recorded: AtomicBool,
    /// When the host began to record without this guest, raw on its trace clock; 0: it waited.
    host_began: AtomicU64,
    connected: AtomicBool,
    bytes: AtomicU64,
    events: AtomicU64,
    lost: AtomicU64,
    phase: Mutex<Phase>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Starting,
    Recording,
    Over,
}

impl Shared {
    fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn enter(&self, phase: Phase) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
        self.changed.notify_all();
    }
}

/// A guest that is being recorded.
pub struct GuestSession {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Outcome, SessionError>>,
    limits: Limits,
}

impl GuestSession {
    /// Starts the session's thread; [`GuestSession::wait_started`] tells when the guest records.
    ///
    /// # Errors
    /// If no thread can be made.
    pub fn spawn(config: SessionConfig, sink: Box<dyn GuestSink>) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let limits = config.limits;
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("transect-guest".into()).spawn(move || {
            let result = run::run(&config, sink, &theirs);
            theirs.connected.store(false, Ordering::Relaxed);
            theirs.enter(Phase::Over);
            result
        })?;
        Ok(GuestSession { shared, thread, limits })
    }

    /// Waits until the guest records. False if it failed or did not come in time:
    /// [`GuestSession::stop`] then says why.
    pub fn wait_started(&self) -> bool {
        self.wait_started_until(
            Instant::now() + self.limits.start + Duration::from_secs(1),
            &|| false,
        )
    }

    /// The same, up to a deadline, and false soon after `is_cancelled` (by a signal, say) becomes true.
    pub fn wait_started_until(&self, deadline: Instant, is_cancelled: &dyn Fn() -> bool) -> bool {
        let mut phase = self.shared.phase.lock().unwrap_or_else(PoisonError::into_inner);
        while *phase == Phase::Starting {
            if is_cancelled() || Instant::now() > deadline {
                break;
            }
            let waited = self.shared.changed.wait_timeout(phase, Duration::from_millis(50));
            phase = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *phase == Phase::Recording
    }

    /// Notes that the host records from `stamp` on (raw, on its trace clock), whether the guest does or not: if it
    /// begins later, the time until then is a gap.
    pub fn host_began(&self, stamp: u64) {
        self.shared.host_began.store(stamp, Ordering::Relaxed);
    }

    /// Has the guest been recorded, at any time?
    pub fn has_recorded(&self) -> bool {
        self.shared.recorded.load(Ordering::Relaxed)
    }

    /// Is the guest still starting?
    pub fn is_starting(&self) -> bool {
        let phase = self.shared.phase.lock().unwrap_or_else(PoisonError::into_inner);
        *phase == Phase::Starting
    }

    /// Shortens the rest of the end to [`Limits::stop_hurried`]: what the guest has not sent by then is lost.
    pub fn hurry(&self) {
        self.shared.hurried.store(true, Ordering::Relaxed);
        self.request_stop();
    }

    /// Has the session ended by itself (the sink failed, the guest was cut off)?
    pub fn is_over(&self) -> bool {
        let phase = self.shared.phase.lock().unwrap_or_else(PoisonError::into_inner);
        // A sink that panics ends the thread without a phase.
        *phase == Phase::Over || self.thread.is_finished()
    }

    /// How it goes.
    pub fn progress(&self) -> Progress {
        Progress {
            connected: self.shared.connected.load(Ordering::Relaxed),
            bytes: self.shared.bytes.load(Ordering::Relaxed),
            events: self.shared.events.load(Ordering::Relaxed),
            lost: self.shared.lost.load(Ordering::Relaxed),
        }
    }

    /// Asks for the end without waiting, so that several guests end side by side.
    pub fn request_stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the session: the guest sends what it still holds and cleans up.
    ///
    /// # Errors
    /// Why the session failed, if it did. A guest that was lost on the way is no failure:
    /// [`Outcome::complete`] and the gaps say so.
    pub fn stop(self) -> Result<Outcome, SessionError> {
        self.request_stop();
        match self.thread.join() {
            Ok(result) => result,
            // The thread does not panic by itself; a sink of the caller's might.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}
