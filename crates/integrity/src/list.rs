//! `checksums.bin`: the checksums of several files of one folder.
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `trsctsum` |
//! | 4, 4 | version 1; bytes of a block, 16384 |
//! | 4 | number of files |
//! | for each file, in order of its name: 4, n | length of its name, and the name from the folder on (`exits/bucket=0.parquet`) |
//! | 8 | length of the file |
//! | 4 for each block | CRC-32 of the block |
//! | at the end: 4 | CRC-32 of all bytes before |
//!
//! All numbers are little endian.

use crate::sums::{BLOCK, BLOCK_BYTES, FileSums};
use std::collections::BTreeMap;

/// The file's name in its folder.
pub const LIST_FILE_NAME: &str = "checksums.bin";

const MAGIC: &[u8; 8] = b"trsctsum";
const VERSION: u32 = 1;

/// The checksums of files, by their names from the folder on that the list is in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct List {
    /// Of each file.
    pub files: BTreeMap<String, FileSums>,
}

/// A list that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// It is not what was written.
    #[error("the list of checksums is damaged")]
    Damaged,
    /// A later version wrote it.
    #[error("the list of checksums has version {0}; this transect reads version 1")]
    Version(u32),
}

impl List {
    /// The list as bytes of a file.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(small(BLOCK_BYTES));
        bytes.extend(small(self.files.len()));
        for (name, sums) in &self.files {
            bytes.extend(small(name.len()));
            bytes.extend(name.as_bytes());
            bytes.extend(sums.bytes.to_le_bytes());
            sums.blocks.iter().for_each(|sum| bytes.extend(sum.to_le_bytes()));
        }
        let sum = crc32fast::hash(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// The list in the bytes of a file.
    ///
    /// # Errors
    /// It is damaged, or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self, ListError> {
        let (content, sum) = bytes.split_last_chunk::<4>().ok_or(ListError::Damaged)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*sum) {
            return Err(ListError::Damaged);
        }
        let mut rest = Rest(content);
        if rest.take(8)? != MAGIC {
            return Err(ListError::Damaged);
        }
        match rest.u32()? {
            VERSION if rest.u32()? as usize == BLOCK_BYTES => {}
            VERSION => return Err(ListError::Damaged),
            later => return Err(ListError::Version(later)),
        }
        let mut list = List::default();
        for _ in 0..rest.u32()? {
            let length = rest.u32()? as usize;
            let name = str::from_utf8(rest.take(length)?).map_err(|_| ListError::Damaged)?;
            let bytes = rest.u64()?;
            let blocks = usize::try_from(bytes.div_ceil(BLOCK)).map_err(|_| ListError::Damaged)?;
            let sums = rest.take(blocks.checked_mul(4).ok_or(ListError::Damaged)?)?;
            let sums = sums.as_chunks::<4>().0.iter().map(|sum| u32::from_le_bytes(*sum));
            list.files.insert(name.to_owned(), FileSums { bytes, blocks: sums.collect() });
        }
        if rest.0.is_empty() { Ok(list) } else { Err(ListError::Damaged) }
    }
}

/// What has not been read yet.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], ListError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(ListError::Damaged)?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, ListError> {
        let bytes = self.take(4)?.try_into().map_err(|_| ListError::Damaged)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> Result<u64, ListError> {
        let bytes = self.take(8)?.try_into().map_err(|_| ListError::Damaged)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list() -> List {
        let files = [("a/b=0.parquet", 0), ("a/b=1.parquet", BLOCK_BYTES + 1), ("c", 5)];
        let sums = files.map(|(name, bytes)| (name.to_owned(), FileSums::of(&vec![3; bytes])));
        List { files: sums.into() }
    }

    #[test]
    fn a_list_comes_back() {
        assert_eq!(List::decode(&list().encode()), Ok(list()));
        assert_eq!(List::decode(&List::default().encode()), Ok(List::default()));
    }

    #[test]
    fn every_flip_and_cut_is_found() {
        let bytes = list().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x20;
            assert_eq!(List::decode(&damaged), Err(ListError::Damaged), "byte {at}");
            assert_eq!(List::decode(&bytes[..at]), Err(ListError::Damaged), "cut at {at}");
        }
    }

    #[test]
    fn a_later_version_is_told_as_such() {
        let mut bytes = list().encode();
        bytes[8] = 2;
        let end = bytes.len() - 4;
        let sum = crc32fast::hash(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&sum);
        assert_eq!(List::decode(&bytes), Err(ListError::Version(2)));
    }

    proptest! {
        /// Also behind a right checksum, for a list may come from elsewhere.
        #[test]
        fn nothing_that_is_no_list_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
            if head {
                bytes.splice(0..0, list().encode().into_iter().take(20));
            }
            let sum = crc32fast::hash(&bytes);
            bytes.extend(sum.to_le_bytes());
            let _ = List::decode(&bytes);
        }
    }
}
