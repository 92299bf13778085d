//! An excerpt of a recording: its tables are all there is.

use crate::facts::{Facts, Stored, TimeUnit};
use crate::{Options, directory};
use anyhow::ensure;
use std::path::{Path, PathBuf};
use transect_model::table::TableSink;
use transect_model::time::{Span, Timestamp};
use transect_store::manifest::Excerpt as Entry;
use transect_store::tables::{Range, TablesFolder, events_bytes, read_rows};
use transect_store::{Manifest, of_broken};

/// An excerpt's directory.
pub(crate) struct Excerpt {
    path: PathBuf,
    manifest: Manifest,
    entry: Entry,
}

/// The excerpt at `path`; none if that is something else.
pub(crate) fn at(path: &Path) -> anyhow::Result<Option<Excerpt>> {
    if !path.is_dir() {
        return Ok(None);
    }
    let manifest = Manifest::read(path)?;
    let entry = manifest.excerpt.clone();
    Ok(entry.map(|entry| Excerpt { path: path.to_owned(), manifest, entry }))
}

impl Excerpt {
    /// Its tables, as they are: never stale, for there is nothing to make others of.
    pub(crate) fn tables(&self, options: &Options) -> anyhow::Result<TablesFolder> {
        ensure!(
            *options == Options::default(),
            "clock and domain options do not apply to an excerpt, whose times are already converted: leave \
             them out, or export the excerpt again with them"
        );
        Ok(transect_store::open_excerpt(&self.path, &self.entry)?)
    }

    /// Every row of it.
    pub(crate) fn rows(
        &self,
        options: &Options,
        window_ns: Option<i64>,
        sink: &mut dyn TableSink,
    ) -> anyhow::Result<Facts> {
        ensure!(
            window_ns.is_none(),
            "--window does not apply to an excerpt: use --window on {}, or export from it",
            self.entry.of
        );
        let tables = self.tables(options)?;
        read_rows(&tables.path, Range::ALL, sink).map_err(of_broken)?;
        Ok(self.facts())
    }

    /// Those of the whole recording, but for its window and what it takes.
    pub(crate) fn facts(&self) -> Facts {
        let facts = directory::facts(&self.path, &self.manifest);
        let Entry { of, from, until, unit, events, .. } = &self.entry;
        let table_bytes = events_bytes(&self.path).filter(|bytes| *bytes > 0);
        // Of a file that another tool recorded nobody knows.
        let is_ours = facts.transect_version.as_ref().is_some_and(|version| !version.is_empty());
        Facts {
            created_unix_ns: facts.created_unix_ns.filter(|_| is_ours),
            transect_version: facts.transect_version.filter(|_| is_ours),
            window: Span { start: Timestamp::new(*from), end: Timestamp::new(*until) },
            unit: if unit == "ticks" { TimeUnit::Ticks } else { TimeUnit::Ns },
            stored: Some(Stored { events: *events, source_bytes: None, table_bytes }),
            excerpt_of: Some(of.clone()),
            ..facts
        }
    }
}
