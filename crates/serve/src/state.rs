//! What is known of the recording by now: its tables, its tiles, or how far they are.

use crate::builders::{Build, Builders};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use transect_integrity::Folder;
use transect_timeline::{Lookup, TimelineError, View};

/// Told what is being made, how much of it is done, and of how much: 0 where that is not known.
pub type Tell<'t> = &'t (dyn Fn(&'static str, u64, u64) + Sync);

/// The recording that is shown, as its owner knows it.
pub trait Recording: Send + Sync + 'static {
    /// Its name for people.
    fn name(&self) -> String;

    /// Has its tables, made if they are missing or stale. `progress` is told what is being done
    /// and how much of how much is done; of 0 where that is not known.
    ///
    /// # Errors
    /// One line: what, where, what to do.
    fn open(&self, progress: Tell<'_>) -> Result<Opened, String>;

    /// A file of what lies in `[from, to)` of trace time.
    ///
    /// # Errors
    /// One line; also where the format is not known.
    fn export(&self, from: i64, to: i64, format: &str) -> Result<Exported, String>;
}

/// A file for whoever asked.
#[derive(Debug)]
pub struct Exported {
    /// Its name.
    pub name: String,
    /// Its content is the rest of this file, from where it stands, which is sent as it is read: it may be larger than
    /// memory.
    pub file: std::fs::File,
}

/// A recording that has tables.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The folder of tables.
    pub tables: PathBuf,
    /// Does [`Recording::open`] make them again if they are damaged? Not those of an excerpt.
    pub can_be_made_again: bool,
    /// The folder that `view/` is, or is to be, in.
    pub parent: PathBuf,
    /// What one unit of time is: `ns`, or `ticks` where the recording does not say how long one is.
    pub unit: &'static str,
    /// The filter that it was recorded with, if any.
    pub filter: Option<String>,
    /// What else the reader should know: how it ended, what was inferred.
    pub notes: Vec<String>,
}

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Building {
    pub(crate) stage: &'static str,
    pub(crate) state: &'static str,
    pub(crate) done: u64,
    /// 0 where it is not known.
    pub(crate) total: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

#[derive(Default)]
struct Inner {
    building: Building,
    /// Raised by every change that the page is told about.
    version: u64,
    view: Option<Arc<View>>,
    opened: Option<Opened>,
    /// Rows of its tables.
    lookup: Option<Lookup>,
}

/// Shared by the builder and all connections.
pub(crate) struct State {
    pub(crate) recording: Box<dyn Recording>,
    /// Threads that make tiles.
    threads: usize,
    builders: Arc<Builders>,
    /// The client that opened it.
    client: String,
    /// Set to give up its build.
    stop: AtomicBool,
    inner: Mutex<Inner>,
    changed: Condvar,
    is_building: AtomicBool,
    /// Were the tables found to be damaged while they were served? They are made again once.
    is_distrusted: AtomicBool,
}

impl State {
    pub(crate) fn new(
        recording: Box<dyn Recording>,
        threads: usize,
        builders: Arc<Builders>,
        client: String,
    ) -> Self {
        State {
            recording,
            threads,
            builders,
            client,
            stop: AtomicBool::new(false),
            inner: Mutex::default(),
            changed: Condvar::new(),
            is_building: AtomicBool::new(false),
            is_distrusted: AtomicBool::new(false),
        }
    }

    /// The client that opened it.
    pub(crate) fn client(&self) -> &str {
        &self.client
    }

    /// Gives up its build, now and for good.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let mut inner = self.lock();
        change(&mut inner);
        inner.version += 1;
        drop(inner);
        self.changed.notify_all();
    }

    fn progress(&self, stage: &'static str, done: u64, total: u64) {
        let building = Building { stage, state: "building", done, total, error: None };
        self.change(|inner| inner.building = building);
    }

    pub(crate) fn building(&self) -> Building {
        self.lock().building.clone()
    }

    /// Waits until something changed since `version`, or for a while; then how it is.
    pub(crate) fn wait(&self, version: u64, patience: Duration) -> (u64, Building) {
        let unchanged = |inner: &mut Inner| inner.version == version;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, unchanged);
        let (inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        (inner.version, inner.building.clone())
    }

    /// The tracks that can be shown; none before the first.
    pub(crate) fn view(&self) -> Option<Arc<View>> {
        self.lock().view.clone()
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.lock().building.state == "ready"
    }

    pub(crate) fn opened(&self) -> Option<Opened> {
        self.lock().opened.clone()
    }

    /// Rows of the tables.
    pub(crate) fn lookup(&self) -> Option<Lookup> {
        self.lock().lookup.clone()
    }

    /// An answer found the tables damaged: they and the tiles are made again, once.
    pub(crate) fn distrust_tables(self: &Arc<Self>) {
        let Some(opened) = self.opened().filter(|opened| opened.can_be_made_again) else { return };
        if !self.is_distrusted.swap(true, Ordering::Relaxed) {
            Folder::distrust(&opened.tables);
            self.build(true, ());
        }
    }

    /// Makes what is missing when its turn in the queue has come; `again` distrusts the tiles that are there. `kept` is
    /// dropped when that has ended.
    pub(crate) fn build(self: &Arc<Self>, again: bool, kept: impl Send + 'static) {
        if self.is_building.swap(true, Ordering::Relaxed) {
            return;
        }
        // Before anybody who was told that something is missing can ask how far it is.
        self.progress("tables", 0, 0);
        let (state, kept) = (Arc::clone(self), Box::new(kept));
        self.builders.push(Build { state, again, kept });
    }

    /// Makes what is missing, and publishes the result.
    pub(crate) fn make_or_fail(&self, again: bool) {
        let result = self.make(again);
        self.change(|inner| match result {
            Ok(view) => {
                inner.view = Some(Arc::new(view));
                inner.building = Building { state: "ready", stage: "ready", ..Building::default() };
            }
            Err(error) => {
                let (stage, error) = (inner.building.stage, Some(error));
                inner.building = Building { stage, state: "failed", error, ..Building::default() };
            }
        });
        self.is_building.store(false, Ordering::Relaxed);
    }

    fn make(&self, again: bool) -> Result<View, String> {
        let told = Throttle::default();
        let opened = self.open(&told)?;
        let made = match self.tiles(&opened, again, &told) {
            Err(error) if error.table_damage().is_some() && opened.can_be_made_again => {
                Folder::distrust(&opened.tables);
                let opened = self.open(&told)?;
                self.tiles(&opened, true, &told)
            }
            made => made,
        };
        made.map_err(|error| error.to_string())
    }

    fn open(&self, told: &Throttle) -> Result<Opened, String> {
        let opened = self.recording.open(&|stage, done, total| {
            if told.is_due() {
                self.progress(stage, done, total);
            }
        })?;
        self.change(|inner| {
            inner.lookup = Some(Lookup::new(&opened.tables));
            inner.opened = Some(opened.clone());
        });
        Ok(opened)
    }

    fn tiles(&self, opened: &Opened, again: bool, told: &Throttle) -> Result<View, TimelineError> {
        let shown = Throttle::default();
        let build = transect_timeline::Build {
            tables: &opened.tables,
            parent: &opened.parent,
            threads: self.threads.max(1),
            progress: &|progress| {
                if told.is_due() {
                    self.progress("tiles", progress.done, progress.total);
                }
            },
            partial: &|view| {
                if shown.is_due() {
                    self.change(|inner| inner.view = Some(Arc::new(view)));
                }
            },
            stop: &self.stop,
        };
        if again { build.again() } else { build.ensure() }
    }
}

/// Says at most five times a second that it is time.
#[derive(Default)]
struct Throttle(Mutex<Option<std::time::Instant>>);

impl Throttle {
    fn is_due(&self) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = last.is_none_or(|last| last.elapsed() > Duration::from_millis(200));
        if is_due {
            *last = Some(std::time::Instant::now());
        }
        is_due
    }
}

/// A recording of tests that cannot be opened.
#[cfg(test)]
pub(crate) struct NoRecording;

#[cfg(test)]
impl Recording for NoRecording {
    fn name(&self) -> String {
        String::new()
    }

    fn open(&self, _: Tell<'_>) -> Result<Opened, String> {
        Err("made up".to_owned())
    }

    fn export(&self, _: i64, _: i64, _: &str) -> Result<Exported, String> {
        Err("made up".to_owned())
    }
}
