//! A source that is written in its final form from the start: blocks appended to one file.
//!
//! What a block is, the caller knows; here each append is whole or undone, so that the file is
//! readable after every one, and a full disk does not leave half a block before later ones.

use crate::error::{StoreError, io_error};
use std::{
    fs::File,
    io::{IoSlice, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// A file of blocks. Cheap to clone; clones append to the same file, one after the other.
#[derive(Clone, Debug)]
pub struct AppendFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    open: Mutex<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    bytes: u64,
}

impl AppendFile {
    pub(crate) fn create(path: PathBuf) -> Result<Self, StoreError> {
        let file = transect_access::create_file(&path).map_err(io_error("make", &path))?;
        let open = Mutex::new(Open { file, bytes: 0 });
        Ok(AppendFile { inner: Arc::new(Inner { path, open }) })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.inner.open.lock().unwrap_or_else(PoisonError::into_inner).bytes
    }

    /// Appends the parts, as one. After an error (disk full) the file ends where it did before.
    pub fn append(&self, parts: &[&[u8]]) -> Result<(), StoreError> {
        let mut open = self.inner.open.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = parts.iter().map(|part| part.len()).sum();
        match write_all(&mut open.file, parts) {
            Ok(()) => {
                // usize is at most 64 bits wide on every target.
                open.bytes += total as u64;
                Ok(())
            }
            Err(error) => {
                // Best effort: readers find the last whole block as well.
                let end = open.bytes;
                let _ = open.file.set_len(end);
                let _ = open.file.seek(SeekFrom::Start(end));
                Err(io_error("append to", &self.inner.path)(error))
            }
        }
    }
}

/// One system call where the kernel takes all at once, as it does for files.
fn write_all(file: &mut File, parts: &[&[u8]]) -> std::io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = slices.as_mut_slice();
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) if left.iter().all(|slice| slice.is_empty()) => break,
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(bytes) => IoSlice::advance_slices(&mut left, bytes),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_one_another() {
        let dir = tempfile::tempdir().unwrap();
        let file = AppendFile::create(dir.path().join("host.compact")).unwrap();
        file.append(&[b"head", b"", b"body"]).unwrap();
        file.clone().append(&[b"more"]).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap(), b"headbodymore");
        assert_eq!(file.bytes(), 12);
        assert!(AppendFile::create(file.path().to_owned()).is_err(), "not over another's file");
    }

    #[test]
    fn a_full_disk_leaves_whole_appends() {
        // A limit on file size is the disk that is full: writes stop in the middle.
        let path = Path::new("/dev/full");
        let Ok(full) = File::options().write(true).open(path) else {
            println!("skipped: no /dev/full");
            return;
        };
        let open = Mutex::new(Open { file: full, bytes: 0 });
        let file = AppendFile { inner: Arc::new(Inner { path: path.to_owned(), open }) };
        let error = file.append(&[b"x"]).unwrap_err();
        assert!(matches!(error, StoreError::NoSpace { .. }), "{error}");
        assert_eq!(file.bytes(), 0);
    }
}
