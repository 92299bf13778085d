//! Making a recording: the directory, its manifest, its sources' spools and its clock evidence.

use crate::{
    error::{StoreError, io_error},
    manifest::{Gap, Manifest, SourceEntry},
    names::check_file,
    spool::SourceSpool,
};
use serde::Serialize;
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

/// Name of the file of clock evidence: one JSON record per line, in order of time.
pub const CLOCKS_FILE_NAME: &str = "clocks.jsonl";

/// A recording that is being made. Shared by reference between the recorder's threads.
#[derive(Debug)]
pub struct RecordingWriter {
    dir: PathBuf,
    manifest: Mutex<Manifest>,
    clocks: Mutex<File>,
}

impl RecordingWriter {
    /// Makes the directory (or takes an empty one) and writes the first manifest.
    pub fn create(dir: &Path, manifest: Manifest) -> Result<Self, StoreError> {
        fs::create_dir_all(dir).map_err(io_error("make the directory", dir))?;
        if fs::read_dir(dir).map_err(io_error("list", dir))?.next().is_some() {
            return Err(StoreError::Exists(dir.to_owned()));
        }
        let path = dir.join(CLOCKS_FILE_NAME);
        let clocks = File::create_new(&path).map_err(io_error("make", &path))?;
        manifest.write(dir)?;
        Ok(RecordingWriter {
            dir: dir.to_owned(),
            manifest: Mutex::new(manifest),
            clocks: Mutex::new(clocks),
        })
    }

    /// The recording's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manifest as it is now.
    pub fn manifest(&self) -> Manifest {
        self.manifest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the manifest and writes it. The change stays in memory even if writing fails, so
    /// that a later write (after space was freed) carries it.
    pub fn update<T>(&self, change: impl FnOnce(&mut Manifest) -> T) -> Result<T, StoreError> {
        let mut manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut manifest);
        manifest.write(&self.dir)?;
        Ok(result)
    }

    /// Adds a source: its spools and meta folder are made, and the manifest names it at once, so
    /// that a killed recorder leaves nothing that a reader does not know of.
    pub fn add_source(&self, mut entry: SourceEntry) -> Result<SourceSpool, StoreError> {
        check_file(&entry.file)?;
        entry.spooled = true;
        let spool = SourceSpool::create(&self.dir, &entry)?;
        self.update(|manifest| manifest.sources.push(entry))?;
        Ok(spool)
    }

    /// Appends one record of clock evidence, durable against a kill of the recorder.
    pub fn evidence(&self, evidence: &impl Serialize) -> Result<(), StoreError> {
        let path = self.dir.join(CLOCKS_FILE_NAME);
        let mut line = serde_json::to_vec(evidence).map_err(|e| StoreError::Io {
            action: "write evidence to",
            path: path.clone(),
            source: e.into(),
        })?;
        line.push(b'\n');
        let mut clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        // One write per line: a kill between two leaves whole lines.
        clocks.write_all(&line).map_err(io_error("append to", path))
    }

    /// Notes a stretch in which a machine could not be recorded.
    pub fn gap(&self, gap: Gap) -> Result<(), StoreError> {
        self.update(|manifest| manifest.gaps.push(gap))
    }
}
