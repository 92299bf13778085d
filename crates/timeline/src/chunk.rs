//! A chunk: up to 4,096 intervals of one track, one behind the other.
//!
//! An interval is up to three variable-length numbers: the time since the end of the one before
//! (nothing in tracks that tile) with two flags below it, its length unless it is an instant, and
//! its **code** unless it is that of the one before: the number of its key or, in tracks of numbers,
//! its value. So most intervals take four bytes and events two, any of them can be found by reading
//! one chunk, and encoding costs a few ns.

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

/// Stamps are within ±2⁶¹ ns (73 years), so that times between them have two bits to spare.
pub(crate) const MAX_NS: i64 = (1 << 61) - 1;
const HAS_LENGTH: u64 = 1;
const HAS_CODE: u64 = 2;

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
    last_code: u64,
}

impl Filling {
    /// Takes an interval, which begins where the one before ended or later, and lies within
    /// [`MAX_NS`].
    #[inline]
    pub(crate) fn push(&mut self, interval: Interval) {
        if self.rows == 0 {
            self.first_ts = interval.ts;
            self.last_end = interval.ts;
            self.last_code = 0;
        }
        // Not negative: so says the caller.
        let gap = (interval.ts - self.last_end).cast_unsigned();
        let length = if interval.dur == 0 { 0 } else { HAS_LENGTH };
        let code = if interval.code == self.last_code { 0 } else { HAS_CODE };
        varint::put(&mut self.bytes, gap << 2 | code | length);
        if length != 0 {
            varint::put(&mut self.bytes, interval.dur.cast_unsigned());
        }
        if code != 0 {
            varint::put(&mut self.bytes, interval.code);
        }
        self.last_end = interval.end();
        self.last_code = interval.code;
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
        return Err(damaged("checksum mismatch in a chunk of intervals"));
    }
    let mut rest = bytes;
    let mut last = Interval { ts: entry.first_ts, dur: 0, code: 0 };
    to.reserve(entry.rows as usize);
    for _ in 0..entry.rows {
        last = interval(&mut rest, &last).ok_or_else(|| damaged("truncated chunk of intervals"))?;
        to.push(last);
    }
    Ok(())
}

#[inline]
fn interval(rest: &mut &[u8], last: &Interval) -> Option<Interval> {
    let head = varint::take(rest)?;
    let gap = i64::try_from(head >> 2).ok()?;
    let dur = match head & HAS_LENGTH {
        0 => 0,
        _ => i64::try_from(varint::take(rest)?).ok()?,
    };
    let code = if head & HAS_CODE == 0 { last.code } else { varint::take(rest)? };
    let ts = last.end().checked_add(gap)?;
    ts.checked_add(dur)?;
    Some(Interval { ts, dur, code })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn some()(gap in prop_oneof![Just(0), 0..300_i64, 0..1_i64 << 50],
                  dur in prop_oneof![Just(0), 0..300_i64, 0..1_i64 << 50],
                  code in prop_oneof![0..3_u64, any::<u64>()]) -> (i64, i64, u64) {
            (gap, dur, code)
        }
    }

    proptest! {
        #[test]
        fn intervals_come_back(parts in prop::collection::vec(some(), 1..200), first: i32) {
            let mut at = i64::from(first);
            let intervals: Vec<Interval> = parts.into_iter().map(|(gap, dur, code)| {
                let ts = at + gap;
                at = ts + dur;
                Interval { ts, dur, code }
            }).collect();
            let (mut filling, mut bytes) = (Filling::default(), Vec::new());
            intervals.iter().for_each(|interval| filling.push(*interval));
            let entry = filling.take(0, true, &mut bytes);
            let mut back = Vec::new();
            decode(&bytes, &entry, Path::new("x"), &mut back).unwrap();
            prop_assert_eq!((entry.first_ts, entry.last_end), (intervals[0].ts, at));
            prop_assert_eq!(back, intervals);
        }
    }
}
