//! Compression of block payloads: columns, then zstd.

use crate::columns::{Splitter, join, longest_image};
use std::{fmt, io};
use zstd::zstd_safe::{
    CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, compress_bound, get_error_name,
    zstd_sys::ZSTD_EndDirective,
};

/// zstd's level: higher ones take several times as long for a few percent, as most of what is
/// left are bits without a pattern.
const LEVEL: i32 = 3;
/// Bytes of a directory entry: number and length of a column.
const ENTRY_BYTES: usize = 6;
/// Columns shorter than this do not get a zstd block, and so a code, of their own.
const OWN_BLOCK_BYTES: usize = 256;

/// Compresses payloads; keeps its buffers from one to the next.
pub(crate) struct Squeezer {
    zstd: CCtx<'static>,
    splitter: Splitter,
    out: Vec<u8>,
}

impl fmt::Debug for Squeezer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Squeezer").finish_non_exhaustive()
    }
}

impl Squeezer {
    pub(crate) fn new() -> io::Result<Self> {
        let mut zstd = CCtx::try_create().ok_or_else(|| io::Error::other("zstd: out of memory"))?;
        zstd.set_parameter(CParameter::CompressionLevel(LEVEL)).map_err(failed)?;
        Ok(Squeezer { zstd, splitter: Splitter::new(), out: Vec::new() })
    }

    /// The compressed payload, and whether it was sorted into columns before.
    pub(crate) fn squeeze(&mut self, words: &[u8]) -> io::Result<(&[u8], bool)> {
        self.out.clear();
        let Some(columns) = self.splitter.split(words) else {
            frame(&mut self.zstd, words.len(), [words], &mut self.out)?;
            return Ok((&self.out, false));
        };
        let columns: Vec<(u16, &[u8])> = columns.collect();
        let directory = directory(&columns)?;
        let image_bytes = directory.len() + columns.iter().map(|(_, c)| c.len()).sum::<usize>();
        self.out.extend_from_slice(&length(image_bytes)?.to_le_bytes());
        let parts = std::iter::once(directory.as_slice()).chain(columns.iter().map(|(_, c)| *c));
        frame(&mut self.zstd, image_bytes, parts, &mut self.out)?;
        Ok((&self.out, true))
    }
}

fn length(bytes: usize) -> io::Result<u32> {
    u32::try_from(bytes).map_err(io::Error::other)
}

fn failed(code: usize) -> io::Error {
    io::Error::other(format!("zstd: {}", get_error_name(code)))
}

/// How many columns, and for each its number and length.
fn directory(columns: &[(u16, &[u8])]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(2 + columns.len() * ENTRY_BYTES);
    bytes.extend_from_slice(&u16::try_from(columns.len()).map_err(io::Error::other)?.to_le_bytes());
    for (number, column) in columns {
        bytes.extend_from_slice(&number.to_le_bytes());
        bytes.extend_from_slice(&length(column.len())?.to_le_bytes());
    }
    Ok(bytes)
}

/// Appends one zstd frame of all parts. Each larger part gets zstd blocks of its own, because a
/// block has one code for all its bytes.
fn frame<'a>(
    zstd: &mut CCtx<'static>,
    bytes: usize,
    parts: impl IntoIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    zstd.reset(ResetDirective::SessionOnly).map_err(failed)?;
    zstd.set_pledged_src_size(Some(bytes as u64)).map_err(failed)?;
    // Every flush costs a block header of 3 bytes.
    let begin = out.len();
    out.resize(begin + compress_bound(bytes) + bytes / OWN_BLOCK_BYTES * 8 + 64, 0);
    let mut at = begin;
    let mut since_flush = 0;
    for part in parts {
        since_flush += part.len();
        let own = part.len() >= OWN_BLOCK_BYTES || since_flush >= OWN_BLOCK_BYTES;
        let directive =
            if own { ZSTD_EndDirective::ZSTD_e_flush } else { ZSTD_EndDirective::ZSTD_e_continue };
        since_flush = if own { 0 } else { since_flush };
        at += step(zstd, part, &mut out[at..], directive)?;
    }
    at += step(zstd, &[], &mut out[at..], ZSTD_EndDirective::ZSTD_e_end)?;
    out.truncate(at);
    Ok(())
}

/// Compresses all of `input`; returns how many bytes were written.
fn step(
    zstd: &mut CCtx<'static>,
    input: &[u8],
    out: &mut [u8],
    directive: ZSTD_EndDirective,
) -> io::Result<usize> {
    let mut input = InBuffer::around(input);
    let mut out = OutBuffer::around(out);
    let continues = matches!(directive, ZSTD_EndDirective::ZSTD_e_continue);
    loop {
        let had = (input.pos(), out.pos());
        let left = zstd.compress_stream2(&mut out, &mut input, directive).map_err(failed)?;
        if input.pos() == input.src.len() && (left == 0 || continues) {
            return Ok(out.pos());
        }
        if had == (input.pos(), out.pos()) {
            return Err(io::Error::other("zstd: no room for the compressed block"));
        }
    }
}

/// Decompresses a payload of exactly `raw_bytes` into `into`; `None` if it is anything else.
pub(crate) fn expand(
    stored: &[u8],
    raw_bytes: usize,
    columns: bool,
    into: &mut Vec<u8>,
) -> Option<()> {
    into.clear();
    if !columns {
        return decompress(stored, raw_bytes, into);
    }
    let (image_bytes, frame) = stored.split_first_chunk()?;
    let image_bytes = u32::from_le_bytes(*image_bytes) as usize;
    if image_bytes > longest_image(raw_bytes) {
        return None;
    }
    let mut image = Vec::new();
    decompress(frame, image_bytes, &mut image)?;
    let (count, rest) = image.split_first_chunk()?;
    let count = usize::from(u16::from_le_bytes(*count));
    let (directory, mut rest) = rest.split_at_checked(count * ENTRY_BYTES)?;
    let mut columns = Vec::with_capacity(count);
    for entry in directory.as_chunks::<ENTRY_BYTES>().0 {
        let number = u16::from_le_bytes([entry[0], entry[1]]);
        let bytes = u32::from_le_bytes([entry[2], entry[3], entry[4], entry[5]]);
        let (column, after) = rest.split_at_checked(bytes as usize)?;
        columns.push((number, column));
        rest = after;
    }
    into.reserve(raw_bytes);
    join(columns.into_iter(), raw_bytes, into)
}

fn decompress(stored: &[u8], bytes: usize, into: &mut Vec<u8>) -> Option<()> {
    into.resize(bytes, 0);
    let length = zstd::bulk::decompress_to_buffer(stored, into.as_mut_slice()).ok()?;
    (length == bytes).then_some(())
}
