//! A chunk: up to 4,096 intervals of one track, one behind the other.
//!
//! An interval is three variable-length numbers: the time since the end of the one before (nothing
//! in tracks that tile), its length, and its **code**: the number of its key or, in tracks of
//! numbers, its value. So most intervals take four or five bytes, any of them can be found by
//! reading one chunk, and encoding costs a few ns.

use crate::error::TimelineError;
use crate::varint;
use std::path::Path;

/// Intervals of a chunk at most.
pub(crate) const CHUNK_ROWS: usize = 4096;

/// One interval of a track, `[ts, ts + dur)`; an instant has no length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    /// Start, ns of trace time.
    pub(crate) ts: i64,
    /// Length, ns.
    pub(crate) dur: i64,
    /// Number of its key, or its value in zigzag form.
    pub(crate) code: u64,
}

impl Interval {
    /// Where it ends.
    pub(crate) fn end(&self) -> i64 {
        self.ts + self.dur
    }
}

/// Where a chunk is, and what time it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkEntry {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    pub(crate) crc: u32,
    pub(crate) rows: u32,
    pub(crate) first_ts: i64,
    pub(crate) last_end: i64,
}

/// A chunk that is being filled.
#[derive(Debug, Default)]
pub(crate) struct Filling {
    bytes: Vec<u8>,
    rows: u32,
    first_ts: i64,
    last_end: i64,
}

impl Filling {
    /// Takes an interval, which begins where the one before ended or later.
    #[inline]
    pub(crate) fn push(&mut self, interval: Interval) {
        if self.rows == 0 {
            self.first_ts = interval.ts;
            self.last_end = interval.ts;
        }
        // Not negative: so says the caller.
        varint::put(&mut self.bytes, (interval.ts - self.last_end).cast_unsigned());
        varint::put(&mut self.bytes, interval.dur.cast_unsigned());
        varint::put(&mut self.bytes, interval.code);
        self.last_end = interval.end();
        self.rows += 1;
    }

    pub(crate) fn is_full(&self) -> bool {
        self.rows as usize >= CHUNK_ROWS
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// The chunk, to be put at `offset`. It is empty afterwards; `release` gives its memory back.
    pub(crate) fn take(&mut self, offset: u64, release: bool, to: &mut Vec<u8>) -> ChunkEntry {
        let entry = ChunkEntry {
            offset,
            // Thirty bytes an interval at most.
            bytes: u32::try_from(self.bytes.len()).unwrap_or(u32::MAX),
            crc: crc32fast::hash(&self.bytes),
            rows: self.rows,
            first_ts: self.first_ts,
            last_end: self.last_end,
        };
        to.extend_from_slice(&self.bytes);
        self.bytes.clear();
        if release {
            self.bytes = Vec::new();
        }
        self.rows = 0;
        entry
    }
}

/// The intervals of a chunk behind those in `to`.
pub(crate) fn decode(
    bytes: &[u8],
    entry: &ChunkEntry,
    path: &Path,
    to: &mut Vec<Interval>,
) -> Result<(), TimelineError> {
    let damaged =
        |what| TimelineError::Damaged { path: path.to_owned(), offset: entry.offset, what };
    if crc32fast::hash(bytes) != entry.crc {
        return Err(damaged("intervals whose checksum is wrong"));
    }
    let mut rest = bytes;
    let mut at = entry.first_ts;
    to.reserve(entry.rows as usize);
    for _ in 0..entry.rows {
        let next = interval(&mut rest, at).ok_or_else(|| damaged("intervals that end early"))?;
        at = next.end();
        to.push(next);
    }
    Ok(())
}

#[inline]
fn interval(rest: &mut &[u8], at: i64) -> Option<Interval> {
    let gap = i64::try_from(varint::take(rest)?).ok()?;
    let dur = i64::try_from(varint::take(rest)?).ok()?;
    let ts = at.checked_add(gap)?;
    ts.checked_add(dur)?;
    Some(Interval { ts, dur, code: varint::take(rest)? })
}
