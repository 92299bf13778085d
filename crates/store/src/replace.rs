//! Files that are replaced in one step.

use crate::error::{StoreError, io_error};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Writes a file so that it is seen whole or not at all, even after power loss.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    put(path, bytes, File::sync_all)
}

/// Writes a file so that it is seen whole or not at all; after power loss it may be missing.
pub(crate) fn replace_unsynced(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    put(path, bytes, |_| Ok(()))
}

fn put(
    path: &Path,
    bytes: &[u8],
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> Result<(), StoreError> {
    let mut tmp: PathBuf = path.to_owned();
    tmp.as_mut_os_string().push(".tmp");
    let written = transect_access::replace_file(&tmp)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| sync(&file)))
        .and_then(|()| fs::rename(&tmp, path));
    if written.is_err() {
        // Best effort: the error below already says what happened.
        let _ = fs::remove_file(&tmp);
    }
    written.map_err(io_error("write", path))
}
