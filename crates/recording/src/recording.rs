//! The recording as other programs use it.

use crate::{Facts, Options, Streams, Watcher, folder, run};
use anyhow::Result;
use std::path::{Path, PathBuf};
use transect_engine::topology::MachineInfo;
use transect_model::table::{TableSink, Tables};
use transect_store::tables::TablesFolder;

/// A recording: a directory, or the file of another recorder.
#[derive(Clone, Debug)]
pub struct Recording {
    path: PathBuf,
    options: Options,
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// There is none, or it cannot be understood.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(path, Options::default())
    }

    /// The same, with facts that the recording lacks.
    ///
    /// # Errors
    /// As of [`Recording::open`].
    pub fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let recording = Recording { path: path.as_ref().to_owned(), options };
        recording.facts()?;
        Ok(recording)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known besides its rows. The window is set for excerpts only: [`Recording::rows`] determines it.
    ///
    /// # Errors
    /// It cannot be read any more.
    pub fn facts(&self) -> Result<Facts> {
        run::about(&self.path, &self.options)
    }

    /// The machines that it observed: the host, and what ran on it.
    ///
    /// # Errors
    /// It is an excerpt, or cannot be read any more.
    pub fn machines(&self) -> Result<Vec<MachineInfo>> {
        run::machines(&self.path, &self.options)
    }

    /// Hands out each row of each table as soon as it is known.
    ///
    /// # Errors
    /// Nothing of it can be read.
    pub fn rows(&self, sink: &mut dyn TableSink) -> Result<Facts> {
        run::rows(&self.path, &self.options, None, sink)
    }

    /// All rows in memory.
    ///
    /// # Errors
    /// As of [`Recording::rows`].
    pub fn tables(&self) -> Result<Tables> {
        Ok(run::tables(&self.path, &self.options, None)?.1)
    }

    /// The tables as Parquet files beside the recording (or in the user's cache): those that are there, or new ones if they
    /// are stale or damaged.
    ///
    /// # Errors
    /// As of [`Recording::rows`], or there is no space.
    pub fn folder(&self, watcher: &dyn Watcher) -> Result<TablesFolder> {
        folder::ensure(&self.path, &self.options, watcher)
    }

    /// Has `read` read the events themselves.
    ///
    /// # Errors
    /// It is an excerpt, which has none; it cannot be read; or `read` fails.
    pub fn streams<T>(&self, read: impl FnOnce(Streams<'_>) -> Result<T>) -> Result<T> {
        run::streams(&self.path, &self.options, read)
    }
}
