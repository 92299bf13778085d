//! The place of one block of a log in the file.

use crate::{
    block::{FLAG_COLUMNS, FLAG_ZSTD},
    error::What,
    squeeze,
};

/// Where one block of a log is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRef {
    pub(crate) payload_at: u64,
    pub(crate) stored_bytes: u32,
    pub(crate) raw_bytes: u32,
    pub(crate) position: u64,
    pub(crate) sync_ns: u64,
    pub(crate) lost: u64,
    pub(crate) payload_crc: u32,
    pub(crate) flags: u8,
}

impl BlockRef {
    /// The block's words, decompressed into `buffer` where they have to be.
    pub(crate) fn payload<'a>(&self, file: &'a [u8], buffer: &'a mut Vec<u8>) -> Option<&'a [u8]> {
        let stored = self.stored(file).ok()?;
        if self.flags & FLAG_ZSTD == 0 {
            return Some(stored);
        }
        let columns = self.flags & FLAG_COLUMNS != 0;
        squeeze::expand(stored, self.raw_bytes as usize, columns, buffer)?;
        Some(buffer)
    }

    /// The payload as it is in the file.
    pub(crate) fn stored<'d>(&self, file: &'d [u8]) -> Result<&'d [u8], What> {
        let from = usize::try_from(self.payload_at).map_err(|_| What::Checksum)?;
        let stored = file.get(from..).and_then(|rest| rest.get(..self.stored_bytes as usize));
        let stored = stored.ok_or(What::Checksum)?;
        if crc32fast::hash(stored) != self.payload_crc {
            return Err(What::Checksum);
        }
        Ok(stored)
    }
}
