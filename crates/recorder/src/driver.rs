//! What a recorder waits for: the end, a snapshot, or the next look around.

use crate::window::SnapshotWindow;
use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// How often a recorder looks around.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// A flight recorder looks more often: from the trigger to here, nothing is recorded.
const LOOK_EVERY_FLIGHT: Duration = Duration::from_millis(20);

/// How long [`Driver::next`] waits at most.
pub fn look_every(is_flight_recorder: bool) -> Duration {
    if is_flight_recorder { LOOK_EVERY_FLIGHT } else { LOOK_EVERY }
}

/// Is called with the directory of a snapshot, or with the reason for which there is none.
pub type Reply = Box<dyn FnOnce(&Result<PathBuf, String>) + Send>;

/// Why the recorder woke.
pub enum Wake {
    /// The recording is over, for this reason.
    End(String),
    /// A snapshot is requested, with a window or the default one; a client may wait for the reply.
    Snapshot(Option<SnapshotWindow>, Option<Reply>),
    /// Nothing particular: look around.
    Look,
}

/// What decides how long a recorder runs.
pub trait Driver {
    /// Waits for the next reason to do something, no longer than [`look_every`].
    fn next(&mut self) -> Wake;

    /// Is called once, when the host, and the guests that have answered in time, are recorded: the moment to start what
    /// is to be recorded.
    ///
    /// # Errors
    /// There is nothing to record: the recording is discarded.
    fn begun(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    /// Is the end asked for? For waits before the recording has begun.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Whether the end must come soon, now and later.
    fn hurry(&self) -> Hurry {
        Hurry::default()
    }

    /// Did the recorded command fail? Then a flight recorder takes a last snapshot.
    fn command_failed(&mut self) -> bool {
        false
    }

    /// Is called once tracing is off. Returns a line for the user.
    fn tracing_ended(&mut self) -> Option<String> {
        None
    }
}

/// A look at whether the end must come soon: a flag was set, also after another reason to end.
#[derive(Default)]
pub struct Hurry {
    flags: Vec<Arc<AtomicBool>>,
    /// When it was first seen.
    since: OnceLock<Instant>,
}

impl Hurry {
    /// Must the end come soon?
    pub fn is_on(&self) -> bool {
        self.elapsed().is_some()
    }

    /// The time since it was first seen; none: there is no hurry.
    pub fn elapsed(&self) -> Option<Duration> {
        let is_on = self.flags.iter().any(|came| came.load(Ordering::Relaxed));
        is_on.then(|| self.since.get_or_init(Instant::now).elapsed())
    }
}

impl FromIterator<Arc<AtomicBool>> for Hurry {
    /// Is on once one of the flags is set, by a signal handler for instance.
    fn from_iter<I: IntoIterator<Item = Arc<AtomicBool>>>(flags: I) -> Self {
        Hurry { flags: flags.into_iter().collect(), since: OnceLock::new() }
    }
}
