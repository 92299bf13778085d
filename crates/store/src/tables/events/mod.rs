//! Every decoded record of a recording, once: `events/name=<event>/`, one column per field.
//!
//! **Data flow.** Streams (one per CPU of each source) are read in the order of their stamps, so
//! that each event's files are in order of time without being sorted; a record's bytes are copied
//! into its event's buffer as they are, and the encoding threads take the fields out, column by
//! column.
//!
//! The columns of an event are `ts`, `machine_id`, `cpu`, `tid` (who was current) and the event's own
//! fields under the kernel's names, a field called like one of those four as `arg_…`. Integers keep
//! width and sign; pointers are unsigned; arrays are text (`[1,2]`), sets of CPUs are lists (`0-3,8`),
//! bytes of no known meaning hexadecimal.

mod buffer;
mod kinds;
mod schema;
mod streams;
mod value;

pub use streams::{EventSource, SourceEvents, write_events};

use super::lane::Lane;
use super::part::{BUFFER_BYTES, Part};
use super::pool::Pool;
use super::schema::Layout;
use super::written::{Files, Written};
use crate::error::StoreError;
use buffer::{Event, EventBuffer};
use schema::{EventColumns, Schema};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Writes events into a file (or several) per event.
struct EventsWriter {
    dir: PathBuf,
    pool: Pool,
    events: Vec<Arc<EventColumns>>,
    parts: Vec<Option<Part<EventBuffer>>>,
    files: Arc<Files>,
    /// A layout that could not be made: told at the end.
    failed: Option<StoreError>,
    written: u64,
}

impl EventsWriter {
    /// Writes below `tables/events`.
    fn new(tables: &Path, schema: Schema) -> Self {
        let events: Vec<_> = schema.events.into_iter().map(Arc::new).collect();
        EventsWriter {
            dir: tables.join("events"),
            pool: Pool::new(),
            parts: events.iter().map(|_| None).collect(),
            events,
            files: Arc::new(Files::below(tables)),
            failed: None,
            written: 0,
        }
    }

    /// Takes an event of the kind in `slot`.
    #[inline]
    fn push(&mut self, slot: u32, event: Event<'_>) {
        self.written += 1;
        let at = slot as usize;
        if let Some(None) = self.parts.get(at) {
            self.open(at);
        }
        if let Some(Some(part)) = self.parts.get_mut(at)
            && part.push(event.ts, event, &self.pool)
        {
            self.shrink();
        }
    }

    /// An event's first comes.
    #[cold]
    fn open(&mut self, at: usize) {
        let columns = &self.events[at];
        let layout = match Layout::new(&columns.name, &columns.file_columns()) {
            Ok(layout) => layout,
            Err(error) => {
                self.failed.get_or_insert(error);
                return;
            }
        };
        let dir = self.dir.join(format!("name={}", columns.name));
        let lane =
            |order| Lane::new(Arc::clone(&layout), dir.clone(), order, Arc::clone(&self.files));
        self.parts[at] = Some(Part::new(&EventBuffer::new(Arc::clone(columns)), lane));
    }

    #[cold]
    fn shrink(&mut self) {
        let mut bytes: usize = self.parts.iter().flatten().map(Part::bytes).sum();
        while bytes > BUFFER_BYTES {
            let fullest = self.parts.iter_mut().flatten().max_by_key(|part| part.bytes());
            let Some(part) = fullest.filter(|part| part.bytes() > 0) else { return };
            bytes -= part.bytes();
            part.seal_all(&self.pool);
        }
    }

    fn finish(mut self) -> Result<Written, StoreError> {
        self.parts.iter_mut().flatten().for_each(|part| part.finish(&self.pool));
        self.pool.finish()?;
        if let Some(error) = self.failed {
            return Err(error);
        }
        let parts = self.events.iter().zip(&self.parts);
        let parts = parts.filter_map(|(event, part)| Some((event, part.as_ref()?)));
        let rows = parts.map(|(event, part)| (format!("events/{}", event.name), part.rows()));
        Ok(Written { rows: rows.collect(), sums: self.files.sums(), ..Written::default() })
    }
}
