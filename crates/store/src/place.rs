//! Where a recording is while it is made: a directory can be removed or moved under its recorder.

use crate::error::{StoreError, io_error};
use std::{
    fs::{self, File},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

/// The directory, open.
#[derive(Debug)]
pub(crate) struct Place {
    dir: File,
    id: (u64, u64),
}

impl Place {
    /// Opens the directory.
    pub(crate) fn of(path: &Path) -> Result<Self, StoreError> {
        let dir = File::open(path).map_err(io_error("open the directory", path))?;
        let facts = dir.metadata().map_err(io_error("open the directory", path))?;
        Ok(Place { dir, id: (facts.dev(), facts.ino()) })
    }

    /// Is `path` still this directory?
    ///
    /// # Errors
    /// It was removed, or it has another name.
    pub(crate) fn check(&self, path: &Path) -> Result<(), StoreError> {
        let is_there = fs::metadata(path).is_ok_and(|facts| (facts.dev(), facts.ino()) == self.id);
        if is_there {
            return Ok(());
        }
        match self.new_path() {
            Some(to) => Err(StoreError::Moved { from: path.to_owned(), to }),
            None => Err(StoreError::Removed(path.to_owned())),
        }
    }

    /// Where the directory is now; none if it is nowhere.
    fn new_path(&self) -> Option<PathBuf> {
        // A removed directory has no links, and procfs shows its last name with " (deleted)".
        let links = self.dir.metadata().ok()?.nlink();
        let path = fs::read_link(format!("/proc/self/fd/{}", self.dir.as_raw_fd())).ok()?;
        let is_it = |path: &PathBuf| {
            fs::metadata(path).is_ok_and(|facts| (facts.dev(), facts.ino()) == self.id)
        };
        Some(path).filter(|path| links > 0 && is_it(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_and_moved_directories_are_told_apart() {
        let scratch = tempfile::tempdir().unwrap();
        let scratch_path = scratch.path().canonicalize().unwrap();
        let (first, second) = (scratch_path.join("a"), scratch_path.join("b"));
        fs::create_dir(&first).unwrap();
        let place = Place::of(&first).unwrap();
        assert!(place.check(&first).is_ok());
        fs::rename(&first, &second).unwrap();
        assert!(matches!(place.check(&first), Err(StoreError::Moved { to, .. }) if to == second));
        fs::remove_dir(&second).unwrap();
        assert!(matches!(place.check(&first), Err(StoreError::Removed(_))));
        // Another directory of that name is not it.
        fs::create_dir(&first).unwrap();
        assert!(matches!(place.check(&first), Err(StoreError::Removed(_))));
    }
}
