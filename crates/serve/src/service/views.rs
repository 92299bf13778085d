//! Timelines of snapshots that are open: the last few.

use crate::app::View;
use crate::state::Recording;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Each has a database and tiles in memory.
const MAX_OPEN: usize = 2;
/// Memory for its queries, bytes.
const MEMORY_BYTES: usize = 256 << 20;

/// Opens a recording by its path.
pub type Open = Box<dyn Fn(&Path) -> Box<dyn Recording> + Send + Sync>;

pub(crate) struct Views {
    open: Open,
    /// The one asked last comes last.
    known: Mutex<Vec<(String, Arc<View>)>>,
}

impl Views {
    pub(crate) fn new(open: Open) -> Self {
        Views { open, known: Mutex::default() }
    }

    /// Closes one whose recording is gone.
    pub(crate) fn forget(&self, id: &str) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|(of, _)| of != id);
    }

    pub(crate) fn get(&self, id: &str, path: &Path) -> Arc<View> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.iter().position(|(of, _)| of == id) {
            let found = known.remove(place);
            let view = Arc::clone(&found.1);
            known.push(found);
            return view;
        }
        let queries = transect_query::Options { memory_bytes: MEMORY_BYTES, threads: 1 };
        let view = Arc::new(View::open((self.open)(path), queries));
        if known.len() >= MAX_OPEN {
            known.remove(0);
        }
        known.push((id.to_owned(), Arc::clone(&view)));
        view
    }
}
