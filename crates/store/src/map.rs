//! Files as slices, without reading them.

#![allow(unsafe_code, reason = "mapping a file is how recordings larger than memory are read")]

use crate::error::{StoreError, io_error};
use std::{fs::File, ops::Deref, path::Path};

/// A file mapped for reading. An empty file is an empty slice.
#[derive(Debug)]
pub struct MappedFile(Option<memmap2::Mmap>);

impl MappedFile {
    /// Maps the whole file as it is now.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let len = file.metadata().map_err(io_error("look at", path))?.len();
        if len == 0 {
            return Ok(MappedFile(None));
        }
        // SAFETY: the mapping is private and read-only. Recordings are append-only and their files
        // are never truncated by transect; a user who truncates one while it is read gets SIGBUS,
        // as with every program that maps files.
        let map = unsafe { memmap2::MmapOptions::new().map_copy_read_only(&file) };
        Ok(MappedFile(Some(map.map_err(io_error("map", path))?)))
    }
}

impl Deref for MappedFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
