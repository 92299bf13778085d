//! Timelines of snapshots that are open: the last few.

use crate::app::View;
use crate::builders::Builders;
use crate::sql::Sql;
use crate::state::{Recording, State};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use transect_ask::{Client, Limits};
use transect_http::Peer;

/// Each has tiles in memory.
const MAX_OPEN: usize = 2;
/// Timelines that are built at once.
const MAX_BUILDS: usize = 2;
/// A timeline that another client has asked within this time is not its opener's alone.
const SHARED_FOR: Duration = Duration::from_secs(60);
/// Memory for the queries of a client, bytes.
const MEMORY_BYTES: usize = 256 << 20;
/// Limits of an answer, which lies in the daemon's memory until it is taken.
const LIMITS: Limits = Limits { rows: u64::MAX, bytes: 16 << 20, ms: 60_000 };

/// Opens a recording by its path.
pub type Open = Box<dyn Fn(&Path) -> Box<dyn Recording> + Send + Sync>;

pub(crate) struct Views {
    open: Open,
    /// The one asked last comes last.
    known: Mutex<Vec<Known>>,
    builders: Arc<Builders>,
    sql: Arc<Sql>,
}

/// An open timeline.
struct Known {
    id: String,
    view: Arc<View>,
    /// The client that opened it.
    opener: Peer,
    /// Last request of another client.
    shared: Option<Instant>,
}

impl Known {
    fn is_alone(&self, peer: Peer) -> bool {
        self.opener == peer && self.shared.is_none_or(|shared| shared.elapsed() > SHARED_FOR)
    }
}

impl Views {
    pub(crate) fn new(open: Open, children_per_client: usize, require_sandbox: bool) -> Self {
        let engine =
            transect_ask::Options { memory_bytes: MEMORY_BYTES, threads: 1, require_sandbox };
        let sql = Arc::new(Sql::new(engine, LIMITS));
        let views =
            Views { open, known: Mutex::default(), builders: Builders::new(MAX_BUILDS), sql };
        views.limit_children(children_per_client);
        views
    }

    /// Limits the engine's children of each client.
    pub(crate) fn limit_children(&self, per_client: usize) {
        self.sql.pool.limit_owners(per_client);
    }

    /// Closes one whose recording is gone.
    pub(crate) fn forget(&self, id: &str) {
        let mut known = self.lock();
        for gone in known.extract_if(.., |known| known.id == id) {
            gone.view.close();
        }
    }

    /// Ends the idle children of a client that is gone.
    pub(crate) fn end_client(&self, client: &Client) {
        self.sql.pool.end_client(client);
    }

    /// The timeline of a snapshot, if it is open.
    pub(crate) fn find(&self, id: &str, peer: Peer) -> Option<Arc<View>> {
        find_in(&mut self.lock(), id, peer)
    }

    /// The timeline of a snapshot, opened for this client if needed. `kept` is dropped when its build has ended.
    ///
    /// If there is no place, the client's own timeline is closed, else the one that was asked longest ago. The engine's
    /// children that have its tables open go on: they end when they are idle.
    pub(crate) fn open(
        &self,
        id: &str,
        path: &Path,
        peer: Peer,
        kept: impl Send + 'static,
    ) -> Arc<View> {
        let mut known = self.lock();
        if let Some(view) = find_in(&mut known, id, peer) {
            return view;
        }
        let displaced = (known.len() >= MAX_OPEN).then(|| {
            let own = known.iter().position(|known| known.is_alone(peer));
            known.remove(own.unwrap_or(0))
        });
        // Before the next build is pushed: one that is stopped leaves the queue then.
        if let Some(displaced) = &displaced {
            displaced.view.stop();
        }
        let builders = Arc::clone(&self.builders);
        let state = State::new((self.open)(path), 1, builders, peer.to_string());
        let view = Arc::new(View::open(state, Arc::clone(&self.sql), kept));
        let opened = Arc::clone(&view);
        known.push(Known { id: id.to_owned(), view: opened, opener: peer, shared: None });
        drop(known);
        drop(displaced);
        view
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds an open timeline, which then is the one that was asked last.
fn find_in(known: &mut Vec<Known>, id: &str, peer: Peer) -> Option<Arc<View>> {
    let place = known.iter().position(|known| known.id == id)?;
    let mut found = known.remove(place);
    if found.opener != peer {
        found.shared = Some(Instant::now());
    }
    let view = Arc::clone(&found.view);
    known.push(found);
    Some(view)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests report by failing")]
    use super::*;
    use crate::state::NoRecording;

    const USER: Peer = Peer::User(1000);
    const OTHER: Peer = Peer::User(65534);

    fn open(views: &Views, id: &str, peer: Peer) {
        views.open(id, Path::new(id), peer, ());
    }

    fn open_ids(views: &Views) -> Vec<String> {
        views.lock().iter().map(|known| known.id.clone()).collect()
    }

    #[test]
    fn client_displaces_its_own_timeline_first() {
        let views = Views::new(Box::new(|_| Box::new(NoRecording)), 2, false);
        open(&views, "users", USER);
        for id in ["a", "b", "c"] {
            open(&views, id, OTHER);
            assert_eq!(open_ids(&views), ["users", id]);
        }
        // Without one of its own, a client displaces the one that was asked longest ago.
        assert!(views.find("users", USER).is_some());
        open(&views, "third", Peer::User(7));
        assert_eq!(open_ids(&views), ["users", "third"]);
    }

    #[test]
    fn timeline_that_others_ask_is_not_displaced_as_its_openers() {
        let views = Views::new(Box::new(|_| Box::new(NoRecording)), 2, false);
        open(&views, "shared", OTHER);
        open(&views, "own", OTHER);
        assert!(views.find("shared", USER).is_some());
        assert!(views.find("own", OTHER).is_some());
        open(&views, "next", OTHER);
        assert_eq!(open_ids(&views), ["shared", "next"]);
    }

    #[test]
    fn displaced_timeline_stops_its_build() {
        let views = Views::new(Box::new(|_| Box::new(NoRecording)), 2, false);
        open(&views, "a", USER);
        let displaced = views.find("a", USER).unwrap();
        open(&views, "b", USER);
        assert!(!displaced.is_stopped());
        open(&views, "c", USER);
        assert!(displaced.is_stopped());
    }
}
