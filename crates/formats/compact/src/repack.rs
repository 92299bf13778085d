//! Compressed blocks: while recording, or of a whole file afterwards.

use crate::{
    block::{
        BlockHeader, BlockKind, FLAG_CHUNK_START, FLAG_COLUMNS, FLAG_ZSTD, MAX_RAW_BYTES,
        side_flags,
    },
    error::{Error, LogId},
    log::{Slice, SliceSink},
    read::Compact,
    record::CHUNK_BYTES,
    squeeze::Squeezer,
    write::{names_blocks, note_block, padding},
};
use std::{
    collections::BTreeMap,
    io::{self, Write},
};
use thiserror::Error as ThisError;

/// A sink that compresses: it gathers up to 16 chunks of a log and writes them as one block.
///
/// What is gathered and not yet written would be lost with the process: call
/// [`Packer::flush`] as often as that may cost.
#[derive(Debug)]
pub struct Packer<W> {
    to: W,
    logs: BTreeMap<LogId, Gathered>,
    squeezer: Squeezer,
}

/// Slices of one log that follow each other.
#[derive(Debug)]
struct Gathered {
    position: u64,
    sync_ns: u64,
    lost: u64,
    words: Vec<u8>,
}

impl<W: Write> Packer<W> {
    /// Writes blocks to `to`, which has the file header already.
    pub fn new(to: W) -> io::Result<Self> {
        Ok(Packer { to, logs: BTreeMap::new(), squeezer: Squeezer::new()? })
    }

    /// Writes what was gathered, of all logs.
    pub fn flush(&mut self) -> io::Result<()> {
        for (log, gathered) in std::mem::take(&mut self.logs) {
            self.write(log, &gathered)?;
        }
        self.to.flush()
    }

    /// Writes what was gathered and gives the writer back.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.to)
    }

    fn write(&mut self, log: LogId, gathered: &Gathered) -> io::Result<()> {
        let (payload, columns) = self.squeezer.squeeze(&gathered.words)?;
        let start = gathered.position.is_multiple_of(CHUNK_BYTES as u64);
        let mut flags = FLAG_ZSTD | side_flags(log);
        flags |= if start { FLAG_CHUNK_START } else { 0 };
        flags |= if columns { FLAG_COLUMNS } else { 0 };
        let length = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
        let header = BlockHeader {
            kind: BlockKind::Words,
            flags,
            cpu: log.cpu.0,
            stored_bytes: length(payload.len())?,
            raw_bytes: length(gathered.words.len())?,
            position: gathered.position,
            sync_ns: gathered.sync_ns,
            lost: gathered.lost,
            payload_crc: crc32fast::hash(payload),
        };
        self.to.write_all(&header.to_bytes())?;
        self.to.write_all(payload)?;
        self.to.write_all(padding(payload.len()))
    }
}

impl<W: Write> SliceSink for Packer<W> {
    type Error = io::Error;

    fn slice(&mut self, slice: Slice<'_>) -> io::Result<()> {
        let old = self.logs.remove(&slice.log);
        let mut gathered = match old {
            Some(old) if old.continues(&slice) => old,
            old => {
                if let Some(old) = old {
                    self.write(slice.log, &old)?;
                }
                Gathered {
                    position: slice.position,
                    sync_ns: slice.sync_ns,
                    lost: slice.lost,
                    words: Vec::with_capacity(MAX_RAW_BYTES),
                }
            }
        };
        gathered.lost = slice.lost;
        gathered.words.extend_from_slice(slice.words);
        if gathered.words.len() > MAX_RAW_BYTES - CHUNK_BYTES && gathered.ends_chunk() {
            return self.write(slice.log, &gathered);
        }
        self.logs.insert(slice.log, gathered);
        Ok(())
    }
}

impl Gathered {
    fn end(&self) -> u64 {
        self.position + self.words.len() as u64
    }

    fn ends_chunk(&self) -> bool {
        self.end().is_multiple_of(CHUNK_BYTES as u64)
    }

    fn continues(&self, slice: &Slice<'_>) -> bool {
        self.end() == slice.position && self.words.len() + slice.words.len() <= MAX_RAW_BYTES
    }
}

/// Why a file could not be packed.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum RepackError {
    /// The input cannot be read.
    #[error(transparent)]
    Read(#[from] Error),
    /// The output cannot be written.
    #[error("cannot write the packed file: {0}")]
    Write(#[from] io::Error),
}

/// Writes `file` again, its logs compressed. What cannot be read stays out; whoever removes the
/// original looks at [`Compact::problems`] first.
pub fn repack<W: Write>(file: &[u8], mut to: W) -> Result<W, RepackError> {
    let compact = Compact::parse(file)?;
    to.write_all(&compact.header().to_bytes())?;
    if !compact.names().is_empty() {
        to.write_all(&names_blocks(compact.names()))?;
    }
    for note in compact.notes() {
        to.write_all(&note_block(note))?;
    }
    let mut packer = Packer::new(to)?;
    compact.slices(&mut packer)?;
    let mut to = packer.finish()?;
    if let Some(totals) = compact.totals() {
        to.write_all(&crate::write::end_block(totals))?;
    }
    to.flush()?;
    Ok(to)
}
