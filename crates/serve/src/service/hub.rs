//! The windows of the last minutes, for everybody who looks.
//!
//! The thread that takes windows publishes; all others look at what is there, or wait for what is
//! newer. A window is rendered once, table by table, when the first one asks for it.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use transect_history::{Rendered, began_unix_ns};
use transect_http::{Exhausted, Peer, Quota};
use transect_live::{Histogram, Snapshot, TABLES, ThreadWindow};

/// Windows that are kept, at most.
const MAX_WINDOWS: usize = 150;
/// Memory that they may take, bytes.
const MAX_BYTES: usize = 24 << 20;

/// A window that everybody sees.
pub(crate) struct Taken {
    /// Without threads that slept, as it is kept.
    awake: Arc<Rendered>,
    /// Threads that slept, and which rows of the whole table they are.
    asleep: Vec<(usize, ThreadWindow)>,
    /// All threads, and no other rows than these and what is missing: made when somebody asks for them.
    threads: OnceLock<Rendered>,
    pub(crate) run: u64,
    taken: Instant,
}

impl Taken {
    /// The window's own numbers, and all rows but those of threads that slept.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        self.awake.snapshot()
    }

    /// The window that has all rows of a table (by its place in `TABLES`).
    fn of(&self, table: usize) -> &Rendered {
        let is_threads = TABLES.get(table) == Some(&"thread_windows");
        if is_threads { self.threads.get_or_init(|| self.all_threads()) } else { &self.awake }
    }

    fn all_threads(&self) -> Rendered {
        let window = self.snapshot();
        let (mut awake, mut asleep) = (window.threads.iter(), self.asleep.iter().peekable());
        let all = window.threads.len() + self.asleep.len();
        let threads = (0..all).filter_map(|at| match asleep.next_if(|(place, _)| *place == at) {
            Some((_, thread)) => Some(thread.clone()),
            None => awake.next().cloned(),
        });
        Rendered::new(Arc::new(Snapshot {
            ts: window.ts,
            dur: window.dur,
            ended_unix_ns: window.ended_unix_ns,
            missed_windows: window.missed_windows,
            missing: window.missing.clone(),
            threads: threads.collect(),
            ..Snapshot::default()
        }))
    }

    /// The rows of a table as JSON.
    pub(crate) fn json(&self, table: usize) -> Arc<Vec<u8>> {
        self.of(table).json(table)
    }

    /// A window with all rows of a table.
    pub(crate) fn with(&self, table: usize) -> &Snapshot {
        self.of(table).snapshot()
    }

    /// How old it is.
    pub(crate) fn age(&self) -> Duration {
        self.taken.elapsed()
    }
}

/// What all threads share.
pub(crate) struct Hub {
    /// This run of the daemon, ms since 1970: numbers of machines hold within it.
    pub(crate) run: u64,
    pub(crate) window_ns: u64,
    inner: Mutex<Inner>,
    changed: Condvar,
    waiting: Quota,
}

#[derive(Default)]
struct Inner {
    newest: Option<Arc<Taken>>,
    /// Without threads that slept; the oldest first, each with the memory that it takes.
    ring: VecDeque<(Arc<Snapshot>, usize)>,
    bytes: usize,
    /// Why nothing comes any more.
    ended: Option<String>,
}

/// What waiting came to.
pub(crate) enum Waited {
    /// A window newer than asked for.
    Newer(Arc<Taken>),
    /// None came in time: the newest there is.
    Same(Option<Arc<Taken>>),
    /// Too many wait already: of this client, or of all.
    TooMany(Exhausted),
}

impl Hub {
    pub(crate) fn new(run: u64, window_ns: u64, max_waiting: usize) -> Self {
        // A quarter for each client, and never so few that a browser has none.
        let per_client = (max_waiting / 4).max(8);
        let (inner, changed) = (Mutex::default(), Condvar::new());
        let waiting = Quota::new(per_client, max_waiting);
        Hub { run, window_ns, inner, changed, waiting }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows a window to all. Gives it back without the threads that slept, as it is kept.
    pub(crate) fn publish(&self, mut snapshot: Snapshot) -> Arc<Rendered> {
        let asleep = take_sleepers(&mut snapshot);
        let kept = Arc::new(snapshot);
        let bytes = bytes(&kept);
        let awake = Arc::new(Rendered::new(Arc::clone(&kept)));
        let (run, taken) = (self.run, Instant::now());
        let newest =
            Taken { awake: Arc::clone(&awake), asleep, threads: OnceLock::new(), run, taken };
        let mut inner = self.lock();
        let before = inner.newest.replace(Arc::new(newest));
        inner.ring.push_back((kept, bytes));
        inner.bytes += bytes;
        while inner.ring.len() > MAX_WINDOWS || inner.bytes > MAX_BYTES {
            let Some((_, bytes)) = inner.ring.pop_front() else { break };
            inner.bytes -= bytes;
        }
        drop(inner);
        drop(before);
        self.changed.notify_all();
        awake
    }

    /// Nothing comes any more.
    pub(crate) fn end(&self, why: String) {
        self.lock().ended = Some(why);
        self.changed.notify_all();
    }

    /// Why nothing comes any more.
    pub(crate) fn ended(&self) -> Option<String> {
        self.lock().ended.clone()
    }

    pub(crate) fn newest(&self) -> Option<Arc<Taken>> {
        self.lock().newest.clone()
    }

    /// Windows that end later than `after_unix_ns`, the oldest first.
    pub(crate) fn since(&self, after_unix_ns: u64) -> Vec<Arc<Snapshot>> {
        let inner = self.lock();
        let newer = inner.ring.iter().filter(|(window, _)| window.ended_unix_ns > after_unix_ns);
        newer.map(|(window, _)| Arc::clone(window)).collect()
    }

    /// When the oldest window in memory began, ns since 1970.
    pub(crate) fn oldest_unix_ns(&self) -> Option<u64> {
        self.lock().ring.front().map(|(window, _)| began_unix_ns(window))
    }

    /// Clients that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.used()
    }

    /// Waits until there is a window with a `ts` above `after`, or until patience ends.
    pub(crate) fn wait(&self, peer: Peer, after: i64, patience: Duration) -> Waited {
        let is_newer = |taken: &Arc<Taken>| taken.snapshot().ts > after;
        if let Some(newest) = self.newest().filter(is_newer) {
            return Waited::Newer(newest);
        }
        let place = match self.waiting.take(peer, 1, Duration::ZERO) {
            Ok(place) => place,
            Err(exhausted) => return Waited::TooMany(exhausted),
        };
        let goes_on = |inner: &mut Inner| {
            inner.ended.is_none() && !inner.newest.as_ref().is_some_and(is_newer)
        };
        let waited = self.changed.wait_timeout_while(self.lock(), patience, goes_on);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(place);
        match inner.newest.clone() {
            Some(newest) if is_newer(&newest) => Waited::Newer(newest),
            newest => Waited::Same(newest),
        }
    }
}

/// Takes the threads that slept, or were not there, all the time out of a window; each with its place.
fn take_sleepers(window: &mut Snapshot) -> Vec<(usize, ThreadWindow)> {
    let was_awake = |t: &ThreadWindow| t.executions > 0 || t.gotten_ns > 0 || t.waited_ns > 0;
    let all = std::mem::take(&mut window.threads);
    let mut asleep = Vec::with_capacity(all.len());
    for (place, thread) in all.into_iter().enumerate() {
        if was_awake(&thread) {
            window.threads.push(thread);
        } else {
            asleep.push((place, thread));
        }
    }
    asleep
}

/// Memory of a window, roughly: rows, their texts, and distributions.
fn bytes(window: &Snapshot) -> usize {
    /// A name or a path.
    const TEXT: usize = 48;
    fn of<T>(rows: &[T], more: usize) -> usize {
        rows.len() * (size_of::<T>() + more)
    }
    let lengths = window.actors.iter().map(|actor| &actor.waits);
    let lengths = lengths.chain(window.exits.iter().map(|(_, lengths)| lengths));
    let lengths = lengths.chain(window.io.iter().map(|(_, lengths)| lengths));
    let lengths = lengths.chain(window.containers.iter().map(|(_, lengths)| lengths));
    size_of::<Snapshot>()
        + lengths.map(Histogram::bytes).sum::<usize>()
        + of(&window.machines, 2 * TEXT)
        + of(&window.actors, 2 * TEXT)
        + of(&window.threads, 2 * TEXT)
        + of(&window.cpus, 0)
        + of(&window.exits, 0)
        + of(&window.antagonists, 2 * TEXT)
        + of(&window.io, TEXT)
        + of(&window.containers, 5 * TEXT)
        + of(&window.pressure, TEXT)
        + of(&window.missing, 4 * TEXT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use transect_history::synthetic::Made;

    #[test]
    fn who_asks_for_threads_gets_all_in_their_order_and_only_those_awake_are_kept() {
        let mut window = Made::new(9, 0).next_window();
        for thread in window.threads.iter_mut().step_by(2) {
            (thread.executions, thread.gotten_ns, thread.waited_ns) = (0, 0, 0);
        }
        let whole = window.clone();
        let hub = Hub::new(1, 1_000_000_000, 1);
        let kept = hub.publish(window);
        assert_eq!(kept.snapshot().threads.len(), 4);
        let taken = hub.newest().unwrap();
        for (place, name) in TABLES.iter().enumerate() {
            let json = transect_live::lines::Rendered::table(&whole, name).json();
            assert_eq!(taken.json(place), json, "{name}");
        }
    }
}
