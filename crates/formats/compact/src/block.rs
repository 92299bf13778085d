//! Blocks: the 64-byte headers between which a file's payloads stand.

use crate::{
    error::LogId,
    header::{u32_at, u64_at},
    record::CHUNK_BYTES,
};
use transect_model::ids::CpuId;

/// Bytes of a block's header.
pub const BLOCK_HEADER_BYTES: usize = 64;
/// First bytes of a block.
pub const BLOCK_MAGIC: [u8; 4] = *b"TBLK";
/// Most chunks one compressed block holds.
pub const MAX_BLOCK_CHUNKS: usize = 16;
/// Most bytes a block's payload has when it is not compressed: 512 KiB.
pub const MAX_RAW_BYTES: usize = CHUNK_BYTES * MAX_BLOCK_CHUNKS;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    /// Words of a log.
    Words,
    /// NAME and DEVICE_NAME records of what already had a name when recording began.
    Names,
    /// The totals, as JSON; the last block of a file that was ended in order.
    End,
    /// A remark of the writer, as JSON.
    Note,
    /// Of a later version.
    Other(u8),
}

impl BlockKind {
    fn code(self) -> u8 {
        match self {
            BlockKind::Words => 0,
            BlockKind::Names => 1,
            BlockKind::End => 2,
            BlockKind::Note => 3,
            BlockKind::Other(code) => code,
        }
    }

    fn of(code: u8) -> Self {
        match code {
            0 => BlockKind::Words,
            1 => BlockKind::Names,
            2 => BlockKind::End,
            3 => BlockKind::Note,
            other => BlockKind::Other(other),
        }
    }
}

/// The payload is compressed with zstd.
pub(crate) const FLAG_ZSTD: u8 = 1;
/// Words of a side log.
const FLAG_SIDE: u8 = 2;
/// The payload begins a chunk.
pub(crate) const FLAG_CHUNK_START: u8 = 4;
/// Words were sorted into columns before they were compressed.
pub(crate) const FLAG_COLUMNS: u8 = 8;
/// With [`FLAG_SIDE`]: of the second one.
const FLAG_SECOND: u8 = 16;

/// The flags that say which of a CPU's logs it is.
pub(crate) fn side_flags(log: LogId) -> u8 {
    match log.side {
        0 => 0,
        1 => FLAG_SIDE,
        _ => FLAG_SIDE | FLAG_SECOND,
    }
}

/// A block's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) kind: BlockKind,
    pub(crate) flags: u8,
    pub(crate) cpu: u32,
    /// Bytes of the payload in the file, without padding.
    pub(crate) stored_bytes: u32,
    /// Bytes of the payload when decompressed.
    pub(crate) raw_bytes: u32,
    pub(crate) position: u64,
    pub(crate) sync_ns: u64,
    pub(crate) lost: u64,
    /// Checksum of the payload as stored.
    pub(crate) payload_crc: u32,
}

impl BlockHeader {
    pub(crate) fn log(&self) -> LogId {
        let has = |flag| u8::from(self.flags & flag != 0);
        LogId { cpu: CpuId(self.cpu), side: has(FLAG_SIDE) * (1 + has(FLAG_SECOND)) }
    }

    pub(crate) fn to_bytes(self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        put(0, &BLOCK_MAGIC);
        put(4, &[self.kind.code(), self.flags]);
        put(8, &self.cpu.to_le_bytes());
        put(12, &self.stored_bytes.to_le_bytes());
        put(16, &self.raw_bytes.to_le_bytes());
        put(24, &self.position.to_le_bytes());
        put(32, &self.sync_ns.to_le_bytes());
        put(40, &self.lost.to_le_bytes());
        put(48, &self.payload_crc.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header at the beginning of `bytes`, if there is one with a right checksum.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..BLOCK_HEADER_BYTES)?;
        if bytes[..4] != BLOCK_MAGIC || u32_at(bytes, 60)? != crc32fast::hash(&bytes[..60]) {
            return None;
        }
        Some(BlockHeader {
            kind: BlockKind::of(bytes[4]),
            flags: bytes[5],
            cpu: u32_at(bytes, 8)?,
            stored_bytes: u32_at(bytes, 12)?,
            raw_bytes: u32_at(bytes, 16)?,
            position: u64_at(bytes, 24)?,
            sync_ns: u64_at(bytes, 32)?,
            lost: u64_at(bytes, 40)?,
            payload_crc: u32_at(bytes, 48)?,
        })
    }

    /// What contradicts itself, for a header whose checksum is right.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let is_words = self.kind == BlockKind::Words;
        let compressed = self.flags & FLAG_ZSTD != 0;
        if self.raw_bytes as usize > MAX_RAW_BYTES {
            Some("the payload is longer than 512 KiB")
        } else if !compressed && self.raw_bytes != self.stored_bytes {
            Some("it is not compressed but its two lengths differ")
        } else if is_words && !self.raw_bytes.is_multiple_of(8) {
            Some("the payload is not a whole number of words")
        } else if is_words && !self.position.is_multiple_of(8) {
            Some("its position is not on a word boundary")
        } else if self.position.checked_add(u64::from(self.raw_bytes)).is_none() {
            Some("its position exceeds 64 bits")
        } else if is_words && self.begins_chunk() != (self.flags & FLAG_CHUNK_START != 0) {
            Some("its position and its flags disagree about the start of a chunk")
        } else if self.flags & FLAG_COLUMNS != 0 && !(compressed && is_words) {
            Some("columns without compressed words")
        } else {
            None
        }
    }

    fn begins_chunk(&self) -> bool {
        self.position.is_multiple_of(CHUNK_BYTES as u64)
    }
}
