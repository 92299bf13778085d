//! A folder whose content appears whole or not at all.
//!
//! It is made under another name and swapped with the old one in one step, under a lock on the folder that both are in.
//! So a reader sees the old content or the new one; who has the old files open keeps them. A maker that is killed leaves
//! its folder, which the next one removes.

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A folder cannot be locked, made or replaced.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}", path.display())]
pub struct FolderError {
    /// What was tried: `lock`.
    pub action: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why it failed.
    pub source: io::Error,
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |source| FolderError { action, path, source }
}

/// Holds a folder until the file is closed; waits for whoever holds it.
///
/// # Errors
/// It cannot be opened, or its file system has no locks.
pub fn lock_folder(folder: &Path) -> Result<File, FolderError> {
    let dir = File::open(folder).map_err(failed("open", folder))?;
    let locked = flock(&dir, FlockOperation::LockExclusive);
    locked.map_err(|errno| failed("lock", folder)(errno.into()))?;
    Ok(dir)
}

/// A folder under way; gone when dropped, whatever became of it.
#[derive(Debug)]
pub struct NewFolder {
    target: PathBuf,
    path: PathBuf,
}

impl NewFolder {
    /// Begins `parent/NAME.tmp`, which is to become `parent/NAME`. What a killed maker left of it is removed. The parent has
    /// to be locked.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(parent: &Path, name: &str) -> Result<Self, FolderError> {
        let path = parent.join(format!("{name}.tmp"));
        remove(&path)?;
        crate::create_dir(&path).map_err(failed("make", &path))?;
        Ok(NewFolder { target: parent.join(name), path })
    }

    /// Where it is made.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts it in its place, of which the path is returned.
    ///
    /// # Errors
    /// The old one cannot be replaced; it is still there, unless the file system cannot exchange two folders.
    pub fn publish(self) -> Result<PathBuf, FolderError> {
        let rename = |flags| {
            renameat_with(CWD, &self.path, CWD, &self.target, flags).map_err(io::Error::from)
        };
        // Both at once where the file system can; else there is none for a moment, and a crash then
        // means that it is made again.
        if !self.target.exists() || rename(RenameFlags::EXCHANGE).is_err() {
            remove(&self.target)?;
            rename(RenameFlags::empty()).map_err(failed("replace", &self.target))?;
        }
        Ok(self.target.clone())
    }
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        // After the exchange it holds the old content. What cannot be removed now, the next maker does.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn remove(path: &Path) -> Result<(), FolderError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_the_old_one_or_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let parent = dir.path();
        fs::create_dir(parent.join("f.tmp")).unwrap();
        fs::write(parent.join("f.tmp/left"), "of a killed maker").unwrap();
        let _lock = lock_folder(parent).unwrap();
        let make = |text: &str| {
            let new = NewFolder::begin(parent, "f").unwrap();
            fs::write(new.path().join("file"), text).unwrap();
            new
        };
        let read = || fs::read_to_string(parent.join("f/file")).ok();
        let first = make("one");
        assert_eq!(read(), None);
        assert_eq!(first.publish().unwrap(), parent.join("f"));
        let second = make("two");
        assert_eq!(read().as_deref(), Some("one"));
        second.publish().unwrap();
        assert_eq!(read().as_deref(), Some("two"));
        drop(make("three"));
        assert_eq!(read().as_deref(), Some("two"));
        assert!(!parent.join("f.tmp").exists() && !parent.join("f/left").exists());
    }
}
