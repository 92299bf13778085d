//! A file whose blocks are verified as they are read.

use crate::damage::{Damage, What};
use crate::sums::{BLOCK, FileSums};
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use rustix::buffer::spare_capacity;
use rustix::io::pread;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An open file and, if it is known, what it was when it was written. Cheap to clone.
///
/// Errors of reading carry a [`Damage`] where the content is not what was written
/// ([`damage_in`](crate::damage_in) finds it).
#[derive(Clone, Debug)]
pub struct CheckedFile {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    file: File,
    bytes: u64,
    /// None: nothing is known of it, and nothing is verified.
    sums: Option<Arc<FileSums>>,
    /// The first damage that is found in this file, or in others that share the cell.
    found: Arc<OnceLock<Damage>>,
}

impl CheckedFile {
    /// Opens a file. With checksums, its length is verified at once and its blocks as they are read.
    ///
    /// # Errors
    /// It cannot be opened, or has another length.
    pub fn open(path: &Path, sums: Option<Arc<FileSums>>) -> io::Result<Self> {
        Self::open_noting(path, sums, Arc::default())
    }

    /// The same; the first damage is also noted in a cell.
    pub(crate) fn open_noting(
        path: &Path,
        sums: Option<Arc<FileSums>>,
        found: Arc<OnceLock<Damage>>,
    ) -> io::Result<Self> {
        let damage = |what| io::Error::from(note(&found, Damage { path: path.to_owned(), what }));
        let file = match File::open(path) {
            Err(error) if sums.is_some() && error.kind() == io::ErrorKind::NotFound => {
                return Err(damage(What::Missing));
            }
            opened => opened?,
        };
        let bytes = file.metadata()?.len();
        if let Some(sums) = &sums
            && sums.bytes != bytes
        {
            return Err(damage(What::Length { found: bytes, written: sums.bytes }));
        }
        let inner = Inner { path: path.to_owned(), file, bytes, sums, found };
        Ok(CheckedFile { inner: Arc::new(inner) })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// The open file.
    pub fn file(&self) -> &File {
        &self.inner.file
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.inner.bytes
    }

    /// A range, as far as the file had it when it was opened.
    ///
    /// # Errors
    /// It cannot be read, or is not what was written.
    pub fn read_range(&self, range: Range<u64>) -> io::Result<Bytes> {
        let end = range.end.min(self.inner.bytes);
        let start = range.start.min(end);
        let Some(sums) = &self.inner.sums else { return self.inner.read(start, end) };
        if start == end {
            return Ok(Bytes::new());
        }
        // The blocks that the range lies in.
        let from = start - start % BLOCK;
        let to = end.next_multiple_of(BLOCK).min(self.inner.bytes);
        let content = self.inner.read(from, to)?;
        let block = usize::try_from(BLOCK).map_err(io::Error::other)?;
        for (number, block) in (from / BLOCK..).zip(content.chunks(block)) {
            if !sums.is_whole(number, block) {
                return Err(self.inner.damage(What::Block { offset: number * BLOCK }));
            }
        }
        let at = |offset: u64| usize::try_from(offset - from).map_err(io::Error::other);
        Ok(content.slice(at(start)?..at(end)?))
    }

    /// Reads the whole file and verifies it. True if there are checksums to verify it by.
    ///
    /// # Errors
    /// It cannot be read, or is not what was written.
    pub fn verify(&self) -> io::Result<bool> {
        const AT_ONCE: u64 = 64 * BLOCK;
        if self.inner.sums.is_none() {
            return Ok(false);
        }
        let mut at = 0;
        while at < self.inner.bytes {
            self.read_range(at..at + AT_ONCE)?;
            at += AT_ONCE;
        }
        Ok(true)
    }
}

/// Keeps the first of all.
fn note(found: &OnceLock<Damage>, damage: Damage) -> Damage {
    let _ = found.set(damage.clone());
    damage
}

impl Inner {
    fn damage(&self, what: What) -> io::Error {
        note(&self.found, Damage { path: self.path.clone(), what }).into()
    }

    fn read(&self, from: u64, to: u64) -> io::Result<Bytes> {
        let length = usize::try_from(to - from).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            let at = from + bytes.len() as u64;
            // Into the reserved room, which need not be zeroed first.
            if pread(&self.file, spare_capacity(&mut bytes), at)? == 0 {
                // Cut since it was opened.
                return Err(self.damage(What::Length { found: at, written: self.bytes }));
            }
        }
        bytes.truncate(length);
        Ok(bytes.into())
    }
}

impl Length for CheckedFile {
    fn len(&self) -> u64 {
        self.inner.bytes
    }
}

impl ChunkReader for CheckedFile {
    type T = CheckedReader;

    fn get_read(&self, start: u64) -> ParquetResult<CheckedReader> {
        Ok(CheckedReader { file: self.clone(), at: start, block: Bytes::new() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.read_range(start..start.saturating_add(length as u64))?;
        match bytes.len() == length {
            true => Ok(bytes),
            false => Err(ParquetError::EOF(format!(
                "{}: expected {length} bytes at byte {start}, found {}",
                self.inner.path.display(),
                bytes.len()
            ))),
        }
    }
}

/// A file from an offset on.
#[derive(Debug)]
pub struct CheckedReader {
    file: CheckedFile,
    at: u64,
    /// What was verified and not yet handed out.
    block: Bytes,
}

impl Read for CheckedReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            let end = (self.at + 1).next_multiple_of(BLOCK);
            self.block = self.file.read_range(self.at..end)?;
            self.at += self.block.len() as u64;
        }
        let count = into.len().min(self.block.len());
        into[..count].copy_from_slice(&self.block.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::cast_possible_truncation, reason = "offsets in small files")]
    use super::*;
    use crate::damage_in;
    use proptest::prelude::*;
    use std::fs;

    fn written(content: &[u8]) -> (tempfile::TempDir, PathBuf, Arc<FileSums>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, content).unwrap();
        (dir, path, Arc::new(FileSums::of(content)))
    }

    #[test]
    fn other_length_is_told_at_once() {
        let (_dir, path, sums) = written(b"0123456789");
        fs::write(&path, b"01234").unwrap();
        let error = CheckedFile::open(&path, Some(sums)).unwrap_err();
        let what = What::Length { found: 5, written: 10 };
        assert_eq!(damage_in(&error), Some(&Damage { path, what }));
    }

    #[test]
    fn flip_is_told_by_whoever_reads_its_block() {
        let content = vec![1; 3 * 16384 + 5];
        let (_dir, path, sums) = written(&content);
        let mut damaged = content.clone();
        damaged[16384 + 7] = 2;
        fs::write(&path, &damaged).unwrap();
        let file = CheckedFile::open(&path, Some(sums)).unwrap();
        assert_eq!(file.read_range(0..16384).unwrap(), content[..16384]);
        assert_eq!(file.read_range(2 * 16384..60_000).unwrap(), content[2 * 16384..]);
        let error = file.read_range(0..16385).unwrap_err();
        let what = What::Block { offset: 16384 };
        assert_eq!(damage_in(&error).map(|damage| damage.what.clone()), Some(what.clone()));
        let error = file.verify().unwrap_err();
        assert_eq!(damage_in(&error).map(|damage| damage.what.clone()), Some(what));
        let mut all = Vec::new();
        assert!(file.get_read(0).unwrap().read_to_end(&mut all).is_err());
        assert_eq!(all, content[..16384]);
        // Without checksums it is read as it is.
        let file = CheckedFile::open(&path, None).unwrap();
        assert!(!file.verify().unwrap());
        assert_eq!(file.read_range(0..u64::MAX).unwrap(), damaged);
    }

    proptest! {
        #[test]
        fn ranges_are_those_of_the_file(
            bytes in 0..70_000_usize, from in 0..80_000_u64, length in 0..40_000_usize,
        ) {
            let content: Vec<u8> = (0..bytes).map(|n| n.to_le_bytes()[1]).collect();
            let (_dir, path, sums) = written(&content);
            let file = CheckedFile::open(&path, Some(sums)).unwrap();
            let expected = content.iter().skip(from as usize).take(length).copied();
            let expected: Vec<u8> = expected.collect();
            prop_assert_eq!(&file.read_range(from..from + length as u64).unwrap(), &expected);
            let mut read = Vec::new();
            file.get_read(from).unwrap().take(length as u64).read_to_end(&mut read).unwrap();
            prop_assert_eq!(&read, &expected);
            prop_assert!(file.verify().unwrap());
        }
    }
}
