//! The file: appended to, a line at a time, each on the disk before the call comes back.

use super::Entry;
use rustix::fs::{FlockOperation, fdatasync, flock};
use std::{
    fs::{File, OpenOptions},
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};
use transect_bench_core::Fault;

/// A journal that is being written. There is one writer at a time: the file is locked.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
}

impl Journal {
    /// Begins a journal. An error if there is one.
    pub fn create(path: &Path) -> Result<Self, Fault> {
        let open = OpenOptions::new().append(true).create_new(true).open(path);
        let file = open.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let folder = path.parent().unwrap_or(path).display();
                Fault::failed(format!(
                    "{folder} has results already: `transect bench resume {folder}` continues them"
                ))
            }
            _ => Fault::failed(format!("cannot begin {}: {error}", path.display())),
        })?;
        Self::locked(file, path)
    }

    /// Goes on with one. A torn last line is cut off; the entries before it come back, and whether there was one.
    pub fn resume(path: &Path) -> Result<(Self, Vec<Entry>, bool), Fault> {
        let open = OpenOptions::new().append(true).read(true).open(path);
        let file = open.map_err(|error| Fault::failed(format!("{}: {error}", path.display())))?;
        let journal = Self::locked(file, path)?;
        let (entries, whole_bytes, was_torn) = read_bytes(path)?;
        if was_torn {
            let cut = journal.file.set_len(whole_bytes);
            cut.map_err(|error| Fault::failed(format!("cannot mend {}: {error}", path.display())))?;
        }
        Ok((journal, entries, was_torn))
    }

    fn locked(file: File, path: &Path) -> Result<Self, Fault> {
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            Fault::failed(format!("{} is being written by another process", path.display()))
        })?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Appends a line, and comes back when it is on the disk.
    pub fn write(&mut self, entry: &Entry) -> Result<(), Fault> {
        let cannot = |error: &dyn std::fmt::Display| {
            Fault::failed(format!("cannot write {}: {error}", self.path.display()))
        };
        let mut line = serde_json::to_vec(entry).map_err(|error| cannot(&error))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(|error| cannot(&error))?;
        fdatasync(&self.file).map_err(|error| cannot(&error))
    }
}

/// What a journal says, be it finished or not. A torn last line is not part of it.
pub fn read(path: &Path) -> Result<Vec<Entry>, Fault> {
    read_bytes(path).map(|(entries, ..)| entries)
}

/// The entries, the bytes that they take, and whether there is more.
fn read_bytes(path: &Path) -> Result<(Vec<Entry>, u64, bool), Fault> {
    let bytes = std::fs::read(path)
        .map_err(|error| Fault::failed(format!("{}: {error}", path.display())))?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut entries = Vec::new();
    let mut at = 0;
    for line in bytes[..whole].split_inclusive(|byte| *byte == b'\n') {
        let entry = serde_json::from_slice(line).map_err(|error| {
            Fault::failed(format!(
                "{}: byte {at}: not a line of a journal: {error}",
                path.display()
            ))
        })?;
        entries.push(entry);
        at += line.len();
    }
    Ok((entries, whole as u64, whole < bytes.len()))
}
