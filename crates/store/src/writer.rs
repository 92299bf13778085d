//! Making a recording: the directory, its manifest, its sources' spools and its clock evidence.

use crate::{
    append::AppendFile,
    assemble, checksums,
    error::{StoreError, io_error},
    evidence::CLOCKS_FILE_NAME,
    manifest::{Gap, Manifest, SourceEntry, SourceFormat},
    names::check_file,
    place::Place,
    replace::replace,
    spool::SourceSpool,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};
use transect_access::{Readers, create_top};
use transect_clock::evidence::Evidence;

/// Space kept free for the end: thread names and the last manifest must find room on a disk that
/// the events have filled.
const RESERVE_FILE_NAME: &str = ".reserve";
const RESERVE_BYTES: u64 = 1 << 20;
/// Space that must be there beside it: the first manifest, the names of threads, a little of the events.
const FIRST_BYTES: u64 = 512 << 10;

/// What [`RecordingWriter::finish`] left behind.
#[derive(Debug)]
#[must_use = "report the problems"]
pub struct Finished {
    /// The recording.
    pub dir: PathBuf,
    /// Bytes of its sources.
    pub bytes: u64,
    /// What did not work; the recording can be read all the same.
    pub problems: Vec<StoreError>,
    /// Sources left in their spools because the caller gave up; every reader takes spools as well.
    pub left_spooled: Vec<String>,
}

/// A recording that is being made. Shared by reference between the recorder's threads.
#[derive(Debug)]
pub struct RecordingWriter {
    dir: PathBuf,
    place: Place,
    manifest: Mutex<Manifest>,
    clocks: Mutex<File>,
}

impl RecordingWriter {
    /// Makes the directory (or takes an empty one) for its owner alone and writes the first manifest.
    pub fn create(dir: &Path, manifest: Manifest) -> Result<Self, StoreError> {
        Self::create_for(dir, manifest, Readers::Owner)
    }

    /// Makes the directory (or takes an empty one) for these readers and writes the first manifest.
    ///
    /// # Errors
    /// The directory is not empty, is a symbolic link or belongs to another user; or it cannot be written.
    pub fn create_for(
        dir: &Path,
        manifest: Manifest,
        readers: Readers,
    ) -> Result<Self, StoreError> {
        check_free(dir)?;
        let is_new = create_top(dir, readers).map_err(io_error("make the directory", dir))?;
        Self::begin(dir, manifest).inspect_err(|_| {
            // Nothing was recorded: no file of it stays.
            for name in [CLOCKS_FILE_NAME, crate::manifest::FILE_NAME, RESERVE_FILE_NAME] {
                let _ = fs::remove_file(dir.join(name));
            }
            if is_new {
                let _ = fs::remove_dir(dir);
            }
        })
    }

    fn begin(dir: &Path, manifest: Manifest) -> Result<Self, StoreError> {
        check_room(dir)?;
        let place = Place::of(dir)?;
        // First: without it the directory is no recording.
        manifest.write(dir)?;
        let path = dir.join(CLOCKS_FILE_NAME);
        let clocks = transect_access::create_file(&path).map_err(io_error("make", &path))?;
        reserve(dir)?;
        Ok(RecordingWriter {
            dir: dir.to_owned(),
            place,
            manifest: Mutex::new(manifest),
            clocks: Mutex::new(clocks),
        })
    }

    /// Checks that the directory and the files of its sources are still where they were made. Files that were removed can
    /// be written on, and nothing else reports that they are gone.
    ///
    /// # Errors
    /// The directory was removed or moved, or a file in it was removed.
    pub fn check_place(&self) -> Result<(), StoreError> {
        self.place.check(&self.dir)?;
        let manifest = self.manifest.lock().unwrap_or_else(PoisonError::into_inner);
        let files = manifest.sources.iter().map(|source| match source.spooled {
            true => self.dir.join(format!("{}.meta", source.stem())),
            false => self.dir.join(&source.file),
        });
        match files.chain([self.dir.join(crate::manifest::FILE_NAME)]).find(|file| !file.exists()) {
            None => Ok(()),
            Some(_) => Err(StoreError::Removed(self.dir.clone())),
        }
    }

    /// The recording's directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Bytes free on its file system for this user; none where the file system does not report it.
    pub fn free_bytes(&self) -> Option<u64> {
        free_bytes(&self.dir)
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

    /// Adds a compact source: an empty file, named by the manifest at once.
    pub fn add_compact(&self, entry: SourceEntry) -> Result<AppendFile, StoreError> {
        self.add_final(SourceEntry { format: SourceFormat::Compact, ..entry })
    }

    /// Adds what Xen traces: an empty file, named by the manifest at once.
    pub fn add_xentrace(&self, entry: SourceEntry) -> Result<AppendFile, StoreError> {
        self.add_final(SourceEntry { format: SourceFormat::Xentrace, ..entry })
    }

    /// A source whose file is written in its final form.
    fn add_final(&self, mut entry: SourceEntry) -> Result<AppendFile, StoreError> {
        check_file(&entry.file)?;
        entry.spooled = false;
        let file = AppendFile::create(self.dir.join(&entry.file))?;
        self.update(|manifest| manifest.sources.push(entry))?;
        Ok(file)
    }

    /// Appends one record of clock evidence, durable against a kill of the recorder.
    pub fn evidence(&self, evidence: &Evidence) -> Result<(), StoreError> {
        let path = self.dir.join(CLOCKS_FILE_NAME);
        let line = serde_json::to_string(evidence).map_err(|e| StoreError::Io {
            action: "write evidence to",
            path: path.clone(),
            source: e.into(),
        })?;
        let line = format!("{}\n", transect_integrity::seal_line(&line));
        let mut clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner);
        // One write per line: a kill between two leaves whole lines.
        clocks.write_all(line.as_bytes()).map_err(io_error("append to", path))
    }

    /// Writes a small file beside the sources, whole or not at all; one of that name is replaced.
    pub fn write_file(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        check_file(name)?;
        replace(&self.dir.join(name), bytes)
    }

    /// Notes a stretch in which a machine could not be recorded.
    pub fn gap(&self, gap: Gap) -> Result<(), StoreError> {
        self.update(|manifest| manifest.gaps.push(gap))
    }

    /// Gives back the space kept for the end. Call it when no more events come, before what is
    /// known only then is written.
    pub fn make_room(&self) {
        let _ = fs::remove_file(self.dir.join(RESERVE_FILE_NAME));
    }

    /// Assembles every spooled source into its trace.dat, takes the checksums of the files that have none of
    /// their own, and closes the recording. A source that cannot be assembled (no space for the copy) stays in its spools, which readers take as well.
    ///
    /// # Errors
    /// The last manifest could not be written: then the recording counts as unfinished.
    pub fn finish(&self) -> Result<Finished, StoreError> {
        self.finish_unless(&|| false)
    }

    /// As [`RecordingWriter::finish`], but leaves a source in its spools once `gives_up` returns true.
    ///
    /// # Errors
    /// As of [`RecordingWriter::finish`].
    pub fn finish_unless(&self, gives_up: &dyn Fn() -> bool) -> Result<Finished, StoreError> {
        self.make_room();
        let manifest = self.manifest();
        let mut problems = Vec::new();
        let (mut assembled, mut left_spooled) = (Vec::new(), Vec::new());
        let spooled = || manifest.sources.iter().filter(|e| e.spooled);
        for entry in spooled() {
            match self.assemble(&manifest, entry, gives_up) {
                Ok(true) => assembled.push(entry.file.as_str()),
                Ok(false) => left_spooled.push(entry.file.clone()),
                Err(error) => problems.push(error),
            }
        }
        let bytes = source_bytes(&self.dir);
        // What cannot be verified later is still there to be read.
        match checksums::write(&self.dir, &manifest, gives_up) {
            Ok(_) => {}
            Err(error) => problems.push(error),
        }
        let files = checksums::entries(&self.dir, &manifest)?;
        self.update(|manifest| {
            manifest.finished = true;
            manifest.files = files;
            for entry in manifest.sources.iter_mut().filter(|e| e.spooled) {
                entry.spooled = !assembled.contains(&entry.file.as_str());
            }
            if let Some(cost) = &mut manifest.cost {
                cost.bytes = bytes;
            }
        })?;
        if let Err(error) = checksums::write_copies(&self.dir) {
            problems.push(error);
        }
        for entry in spooled().filter(|e| assembled.contains(&e.file.as_str())) {
            assemble::remove_spools(&self.dir, entry);
        }
        Ok(Finished { dir: self.dir.clone(), bytes, problems, left_spooled })
    }

    fn assemble(
        &self,
        manifest: &Manifest,
        entry: &SourceEntry,
        gives_up: &dyn Fn() -> bool,
    ) -> Result<bool, StoreError> {
        let path = self.dir.join(&entry.file);
        assemble::plan(&self.dir, manifest, entry)?.write(&path, gives_up)
    }
}

/// Checks that a recording can be made at `dir`: it is missing, or an empty directory of this user.
///
/// # Errors
/// It is something else.
pub fn check_free(dir: &Path) -> Result<(), StoreError> {
    transect_access::check_top(dir).map_err(io_error("use the directory", dir))?;
    let first = match fs::read_dir(dir) {
        Ok(mut entries) => entries.next(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io_error("list", dir)(error)),
    };
    first.map_or(Ok(()), |_| Err(StoreError::Exists(dir.to_owned())))
}

/// Checks that the file system has space for a beginning.
fn check_room(dir: &Path) -> Result<(), StoreError> {
    let needed_bytes = RESERVE_BYTES + FIRST_BYTES;
    match free_bytes(dir) {
        Some(free_bytes) if free_bytes < needed_bytes => {
            Err(StoreError::NoRoom { dir: dir.to_owned(), free_bytes, needed_bytes })
        }
        _ => Ok(()),
    }
}

/// Bytes of the file system that this user can write; none where the file system does not report it.
fn free_bytes(dir: &Path) -> Option<u64> {
    let facts = rustix::fs::statvfs(dir).ok().filter(|facts| facts.f_blocks > 0)?;
    Some(facts.f_bavail.saturating_mul(facts.f_frsize))
}

fn reserve(dir: &Path) -> Result<(), StoreError> {
    let path = dir.join(RESERVE_FILE_NAME);
    let file = transect_access::create_file(&path).map_err(io_error("make", &path))?;
    let flags = rustix::fs::FallocateFlags::empty();
    match rustix::fs::fallocate(&file, flags, 0, RESERVE_BYTES) {
        // A quota, which the free space does not show.
        Err(rustix::io::Errno::NOSPC | rustix::io::Errno::DQUOT) => Err(StoreError::NoRoom {
            dir: dir.to_owned(),
            free_bytes: 0,
            needed_bytes: RESERVE_BYTES + FIRST_BYTES,
        }),
        // A file system that cannot reserve: then a full disk may cost the last manifest.
        _ => Ok(()),
    }
}

/// Bytes of everything that holds events.
fn source_bytes(dir: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let is_source = |name: &str| {
        [".dat", ".raw", ".compact", ".bin"].iter().any(|suffix| name.ends_with(suffix))
    };
    let named = entries.flatten().filter(|e| e.file_name().to_str().is_some_and(is_source));
    let mut files: Vec<_> =
        named.map(|e| (e.path(), e.metadata().map_or(0, |m| m.len()))).collect();
    // Before the spools are removed, both are there: an assembled file counts, its spools do not.
    let stems: Vec<_> = files
        .iter()
        .filter_map(|(path, _)| Some(path.file_name()?.to_str()?.strip_suffix(".dat")?.to_owned()))
        .collect();
    files.retain(|(path, _)| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !stems.iter().any(|stem| name.starts_with(&format!("{stem}.cpu")))
    });
    files.iter().map(|(_, bytes)| bytes).sum()
}
