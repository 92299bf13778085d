//! A unit: one file of tiles, of one folder of a table.
//!
//! ```text
//! magic │ chunks of all tracks, as they filled │ tiles, track by track │ index │ footer
//! footer = index offset u64, index bytes u64, index CRC-32 u32, magic
//! ```
//! The index is read whole when the file is opened, chunks and tiles when they are asked for; each
//! has its checksum in the index, and the index in the footer. What does not fit is an error that
//! names the place, never a guess.

use crate::chunk::{self, ChunkEntry, Interval};
use crate::error::{TimelineError, io_error};
use crate::index::{self, TileEntry, UnitIndex};
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"TRNSTL01";
const FOOTER_BYTES: usize = 8 + 8 + 4 + 8;
/// What is written at once.
const WRITE_BYTES: usize = 1 << 20;
/// An index beyond this is not believed.
const MAX_INDEX_BYTES: u64 = 1 << 30;

/// A unit's file while it is written.
pub(crate) struct UnitWriter {
    path: PathBuf,
    file: File,
    waiting: Vec<u8>,
    written: u64,
}

impl UnitWriter {
    pub(crate) fn create(path: &Path) -> Result<Self, TimelineError> {
        let file = transect_access::create_file(path).map_err(io_error("make", path))?;
        let waiting = MAGIC.to_vec();
        Ok(UnitWriter { path: path.to_owned(), file, waiting, written: 0 })
    }

    /// Where the next byte goes.
    pub(crate) fn offset(&self) -> u64 {
        self.written + self.waiting.len() as u64
    }

    /// Puts what `put` appends into the file, some time.
    pub(crate) fn append(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), TimelineError> {
        put(&mut self.waiting);
        if self.waiting.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes all there is, so that it can be read back.
    pub(crate) fn flush(&mut self) -> Result<(), TimelineError> {
        let written = self.file.write_all_at(&self.waiting, self.written);
        written.map_err(io_error("write", &self.path))?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    /// What has been flushed, for reading.
    pub(crate) fn reader(&self) -> Result<Blobs, TimelineError> {
        let file = self.file.try_clone().map_err(io_error("open", &self.path))?;
        Ok(Blobs { path: self.path.clone(), file })
    }

    /// Writes index and footer. Bytes of the file, and the checksum of its index.
    pub(crate) fn finish(mut self, index: &UnitIndex) -> Result<(u64, u32), TimelineError> {
        let offset = self.offset();
        let bytes = index::encode(index);
        let crc = crc32fast::hash(&bytes);
        self.append(|to| {
            to.extend_from_slice(&bytes);
            to.extend_from_slice(&offset.to_le_bytes());
            to.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
            to.extend_from_slice(&crc.to_le_bytes());
            to.extend_from_slice(MAGIC);
        })?;
        self.flush()?;
        Ok((self.written, crc))
    }
}

/// The chunks and tiles of a file.
#[derive(Debug)]
pub(crate) struct Blobs {
    path: PathBuf,
    file: File,
}

impl Blobs {
    fn damaged(&self, offset: u64, what: &'static str) -> TimelineError {
        TimelineError::Damaged { path: self.path.clone(), offset, what }
    }

    fn read(&self, offset: u64, to: &mut [u8]) -> Result<(), TimelineError> {
        self.file.read_exact_at(to, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(offset, "unexpected end of file"),
            _ => io_error("read", &self.path)(error),
        })
    }

    /// The intervals of a chunk, behind those in `to`.
    pub(crate) fn chunk(
        &self,
        entry: &ChunkEntry,
        to: &mut Vec<Interval>,
    ) -> Result<(), TimelineError> {
        let mut bytes = vec![0; entry.bytes as usize];
        self.read(entry.offset, &mut bytes)?;
        chunk::decode(&bytes, entry, &self.path, to)
    }

    /// Looks at the file's first bytes.
    pub(crate) fn magic(&self) -> Result<(), TimelineError> {
        let mut magic = [0; MAGIC.len()];
        self.read(0, &mut magic)?;
        if magic == *MAGIC { Ok(()) } else { Err(self.damaged(0, "invalid first bytes")) }
    }

    /// The bytes of a tile.
    pub(crate) fn tile(&self, entry: &TileEntry) -> Result<Vec<u8>, TimelineError> {
        let mut bytes = vec![0; entry.bytes as usize];
        self.read(entry.offset, &mut bytes)?;
        if crc32fast::hash(&bytes) != entry.crc {
            return Err(self.damaged(entry.offset, "checksum mismatch in a tile"));
        }
        Ok(bytes)
    }

    /// That a tile's bytes make no sense, although their checksum is right.
    pub(crate) fn bad_tile(&self, entry: &TileEntry) -> TimelineError {
        self.damaged(entry.offset, "invalid tile")
    }
}

/// A finished unit, open for reading.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) index: UnitIndex,
    pub(crate) blobs: Blobs,
}

impl Unit {
    /// Opens a file of which length and index's checksum are known from the stamp.
    pub(crate) fn open(path: &Path, bytes: u64, crc: u32) -> Result<Self, TimelineError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let len = file.metadata().map_err(io_error("inspect", path))?.len();
        let blobs = Blobs { path: path.to_owned(), file };
        if len != bytes || len < FOOTER_BYTES as u64 {
            return Err(blobs.damaged(len, "the file length differs from the one in the stamp"));
        }
        let index = read_index(&blobs, len, crc)?;
        Ok(Unit { index, blobs })
    }
}

fn read_index(blobs: &Blobs, len: u64, crc: u32) -> Result<UnitIndex, TimelineError> {
    let at = len - FOOTER_BYTES as u64;
    let mut footer = [0; FOOTER_BYTES];
    blobs.read(at, &mut footer)?;
    let word = |from: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&footer[from..from + 8]);
        u64::from_le_bytes(bytes)
    };
    let (offset, bytes) = (word(0), word(8));
    let fits = offset.checked_add(bytes) == Some(at) && bytes <= MAX_INDEX_BYTES;
    let index_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if &footer[20..] != MAGIC || !fits {
        return Err(blobs.damaged(at, "invalid footer"));
    }
    let mut index = vec![0; index_bytes];
    blobs.read(offset, &mut index)?;
    if footer[16..20] != crc.to_le_bytes() || crc32fast::hash(&index) != crc {
        return Err(blobs.damaged(offset, "checksum mismatch in the index"));
    }
    index::decode(&index).ok_or_else(|| blobs.damaged(offset, "invalid index"))
}
