//! Timelines of snapshots that are open: the last few.

use crate::app::View;
use crate::sql::Sql;
use crate::state::Recording;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use transect_ask::{Client, Limits};

/// Each has tiles in memory.
const MAX_OPEN: usize = 2;
/// Memory for the queries of a client, bytes.
const MEMORY_BYTES: usize = 256 << 20;
/// Limits of an answer, which lies in the daemon's memory until it is taken.
const LIMITS: Limits = Limits { rows: u64::MAX, bytes: 16 << 20, ms: 60_000 };

/// Opens a recording by its path.
pub type Open = Box<dyn Fn(&Path) -> Box<dyn Recording> + Send + Sync>;

pub(crate) struct Views {
    open: Open,
    /// The one asked last comes last.
    known: Mutex<Vec<(String, Arc<View>)>>,
    sql: Arc<Sql>,
}

impl Views {
    pub(crate) fn new(open: Open, children_per_client: usize, require_sandbox: bool) -> Self {
        let engine =
            transect_ask::Options { memory_bytes: MEMORY_BYTES, threads: 1, require_sandbox };
        let views =
            Views { open, known: Mutex::default(), sql: Arc::new(Sql::new(engine, LIMITS)) };
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
        for (_, view) in known.extract_if(.., |(of, _)| of == id) {
            view.close();
        }
    }

    /// Ends the idle children of a client that is gone.
    pub(crate) fn end_client(&self, client: &Client) {
        self.sql.pool.end_client(client);
    }

    /// The timeline of a snapshot, if it is open.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<View>> {
        find_in(&mut self.lock(), id)
    }

    /// The timeline of a snapshot, opened if needed in place of the one that was asked longest ago.
    pub(crate) fn open(&self, id: &str, path: &Path) -> Arc<View> {
        let mut known = self.lock();
        if let Some(view) = find_in(&mut known, id) {
            return view;
        }
        let view = Arc::new(View::open((self.open)(path), Arc::clone(&self.sql), 1));
        let displaced = (known.len() >= MAX_OPEN).then(|| known.remove(0).1);
        known.push((id.to_owned(), Arc::clone(&view)));
        drop(known);
        if let Some(displaced) = displaced {
            displaced.close();
        }
        view
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(String, Arc<View>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finds an open timeline, which then is the one that was asked last.
fn find_in(known: &mut Vec<(String, Arc<View>)>, id: &str) -> Option<Arc<View>> {
    let place = known.iter().position(|(of, _)| of == id)?;
    let found = known.remove(place);
    let view = Arc::clone(&found.1);
    known.push(found);
    Some(view)
}
