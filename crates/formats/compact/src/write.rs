//! Writing a file: blocks around slices of logs, names, notes and totals.

use crate::{
    block::{
        BLOCK_HEADER_BYTES, BlockHeader, BlockKind, FLAG_CHUNK_START, MAX_RAW_BYTES, side_flags,
    },
    header::FileHeader,
    log::{Slice, SliceSink},
    names::Names,
    record::CHUNK_BYTES,
    totals::Totals,
};
use std::io::{self, Write};

/// A block's header: write it, then the payload, then [`padding`] zero bytes.
pub type HeaderBytes = [u8; BLOCK_HEADER_BYTES];

/// Zero bytes that bring a payload to a multiple of 8.
pub fn padding(payload_bytes: usize) -> &'static [u8] {
    &[0; 8][..payload_bytes.next_multiple_of(8) - payload_bytes]
}

/// The header of a block for a slice, whose words then follow as they are (no padding is
/// needed). So a collector can write both with one `writev`, straight from the log.
///
/// The slice must not be longer than a chunk, nor reach into the next one.
pub fn slice_header(slice: &Slice<'_>) -> HeaderBytes {
    debug_assert!(slice.words.len() <= CHUNK_BYTES && slice.words.len().is_multiple_of(8));
    let start = slice.position.is_multiple_of(CHUNK_BYTES as u64);
    let flags = side_flags(slice.log) | if start { FLAG_CHUNK_START } else { 0 };
    header(
        BlockHeader {
            kind: BlockKind::Words,
            flags,
            cpu: slice.log.cpu.0,
            stored_bytes: 0,
            raw_bytes: 0,
            position: slice.position,
            sync_ns: slice.sync_ns,
            lost: slice.lost,
            payload_crc: 0,
        },
        slice.words,
    )
}

/// Completes a header for a payload that is stored as it is.
fn header(header: BlockHeader, payload: &[u8]) -> HeaderBytes {
    let bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    let payload_crc = crc32fast::hash(payload);
    BlockHeader { stored_bytes: bytes, raw_bytes: bytes, payload_crc, ..header }.to_bytes()
}

/// A block that belongs to no log: payload as it is.
fn plain(kind: BlockKind, payload: &[u8], into: &mut Vec<u8>) {
    let empty = BlockHeader {
        kind,
        flags: 0,
        cpu: 0,
        stored_bytes: 0,
        raw_bytes: 0,
        position: 0,
        sync_ns: 0,
        lost: 0,
        payload_crc: 0,
    };
    into.extend_from_slice(&header(empty, payload));
    into.extend_from_slice(payload);
    into.extend_from_slice(padding(payload.len()));
}

/// The blocks for a list of names.
pub fn names_blocks(names: &Names) -> Vec<u8> {
    let mut bytes = Vec::new();
    let words = names.words();
    // Whole records of 24 bytes.
    for payload in words.chunks(MAX_RAW_BYTES / 24 * 24) {
        plain(BlockKind::Names, payload, &mut bytes);
    }
    bytes
}

/// The block for a note: any JSON text of at most 512 KiB.
pub fn note_block(json: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    plain(BlockKind::Note, json.as_bytes(), &mut bytes);
    bytes
}

/// The block with which a file ends.
pub fn end_block(totals: &Totals) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Numbers and maps with string keys: JSON has a form for all of it.
    plain(BlockKind::End, &serde_json::to_vec(totals).unwrap_or_default(), &mut bytes);
    bytes
}

/// Writes a file block by block to anything that takes bytes. A collector that has the words
/// mapped uses [`slice_header`] instead.
#[derive(Debug)]
pub struct BlockWriter<W> {
    to: W,
}

impl<W: Write> BlockWriter<W> {
    /// Begins a file.
    pub fn new(mut to: W, header: &FileHeader) -> io::Result<Self> {
        to.write_all(&header.to_bytes())?;
        Ok(BlockWriter { to })
    }

    /// Adds names.
    pub fn names(&mut self, names: &Names) -> io::Result<()> {
        self.to.write_all(&names_blocks(names))
    }

    /// Adds a note, a JSON text.
    pub fn note(&mut self, json: &str) -> io::Result<()> {
        self.to.write_all(&note_block(json))
    }

    /// Ends the file in order.
    pub fn finish(mut self, totals: &Totals) -> io::Result<W> {
        self.to.write_all(&end_block(totals))?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// Gives the writer back without ending the file, as a killed recorder leaves it.
    pub fn into_inner(self) -> W {
        self.to
    }
}

impl<W: Write> SliceSink for BlockWriter<W> {
    type Error = io::Error;

    fn slice(&mut self, slice: Slice<'_>) -> io::Result<()> {
        self.to.write_all(&slice_header(&slice))?;
        self.to.write_all(slice.words)
    }
}
