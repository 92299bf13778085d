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
//! **Bounds.** Every frame passes the guest's [`Bounds`](crate::bounds::Bounds) first. A guest that exceeds one is cut off: its session
//! ends with [`SessionError::Excess`], everything stored before is complete, and the rest is a [`Gap`].

mod books;
mod config;
mod error;
mod link;
mod outcome;
mod run;
mod shared;
mod sink;

pub use config::{Limits, SessionConfig};
pub use error::SessionError;
pub use outcome::Outcome;
pub use sink::{Beginning, Gap, GapCause, GuestSink, SinkError};

use shared::{Phase, Shared};
use std::{
    io,
    sync::{Arc, PoisonError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

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
