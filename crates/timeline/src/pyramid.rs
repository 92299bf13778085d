//! A track's tiles of sums, from its intervals.
//!
//! From the top: a tile with more than [`EXACT_INTERVALS`] intervals needs sums; they are made of
//! its two halves, each a tile of the level below. A half with few intervals is added up from them,
//! the others are tiles of their own. So every interval is added up once, every tile is read by
//! none but its parent, and what is held is one half of a tile per level.

use crate::chunk::Interval;
use crate::error::TimelineError;
use crate::index::{TileEntry, TrackEntry};
use crate::sums::{Amount, Summing, Sums, TILE_BUCKETS};
use crate::unit::{Blobs, UnitWriter};
use std::ops::Range;

/// A tile with so many intervals or fewer gives themselves.
pub const EXACT_INTERVALS: u64 = 2048;
/// Buckets of half a tile.
const HALF: usize = TILE_BUCKETS / 2;
/// The longest buckets: a tile of them is 2⁶² ns.
pub const MAX_LEVEL: u8 = 53;
/// Decoded chunks that are kept.
const KEPT_CHUNKS: usize = 8;

/// Length of a tile, ns.
pub(crate) fn tile_ns(level: u8) -> i64 {
    (1_i64 << TILE_BUCKETS.trailing_zeros()) << level.min(MAX_LEVEL)
}

/// The level at which one tile covers `ns`.
pub(crate) fn top_level(ns: i64) -> u8 {
    (0..MAX_LEVEL).find(|level| tile_ns(*level) >= ns).unwrap_or(MAX_LEVEL)
}

/// The intervals of a track, wherever they are asked for.
pub(crate) struct Intervals<'a> {
    track: &'a TrackEntry,
    blobs: &'a Blobs,
    /// Number of the first interval of each chunk.
    firsts: Vec<u64>,
    /// Chunk number and intervals, the last used last.
    kept: Vec<(usize, Vec<Interval>)>,
}

impl<'a> Intervals<'a> {
    pub(crate) fn new(track: &'a TrackEntry, blobs: &'a Blobs) -> Self {
        let mut next = 0;
        let firsts = track.chunks.iter().map(|chunk| {
            let first = next;
            next += u64::from(chunk.rows);
            first
        });
        Intervals { track, blobs, firsts: firsts.collect(), kept: Vec::new() }
    }

    fn chunk(&mut self, at: usize) -> Result<&[Interval], TimelineError> {
        let place = match self.kept.iter().position(|(number, _)| *number == at) {
            Some(place) => place,
            None => self.read(at)?,
        };
        // The last used is the last to go.
        let found = self.kept.remove(place);
        self.kept.push(found);
        Ok(self.kept.last().map_or(&[], |(_, intervals)| intervals))
    }

    fn read(&mut self, at: usize) -> Result<usize, TimelineError> {
        let mut intervals = match self.kept.len() >= KEPT_CHUNKS {
            true => self.kept.remove(0).1,
            false => Vec::new(),
        };
        intervals.clear();
        self.blobs.chunk(&self.track.chunks[at], &mut intervals)?;
        self.kept.push((at, intervals));
        Ok(self.kept.len() - 1)
    }

    /// How many intervals begin before `ts`, and whether the last of them goes on beyond it.
    fn before(&mut self, ts: i64) -> Result<Place, TimelineError> {
        let chunks = self.track.chunks.partition_point(|chunk| chunk.first_ts < ts);
        let Some(at) = chunks.checked_sub(1) else { return Ok(Place::default()) };
        let first = self.firsts[at];
        let chunk = self.track.chunks[at];
        if chunk.last_end < ts {
            return Ok(Place { number: first + u64::from(chunk.rows), goes_on: false });
        }
        let intervals = self.chunk(at)?;
        let begun = intervals.partition_point(|interval| interval.ts < ts);
        let goes_on = begun > 0 && intervals[begun - 1].end() > ts;
        Ok(Place { number: first + begun as u64, goes_on })
    }

    /// Calls `take` with each interval of these numbers.
    fn each(
        &mut self,
        numbers: Range<u64>,
        mut take: impl FnMut(&Interval),
    ) -> Result<(), TimelineError> {
        let mut number = numbers.start;
        while number < numbers.end {
            let at = self.firsts.partition_point(|first| *first <= number) - 1;
            let first = self.firsts[at];
            let intervals = self.chunk(at)?;
            #[expect(clippy::cast_possible_truncation, reason = "within a chunk")]
            let (from, to) = ((number - first) as usize, (numbers.end - first) as usize);
            for interval in &intervals[from..to.min(intervals.len())] {
                take(interval);
                number += 1;
            }
        }
        Ok(())
    }
}

/// A moment among the intervals.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    number: u64,
    goes_on: bool,
}

impl Place {
    /// Numbers of the intervals from here to there that reach between them.
    fn until(self, there: Place) -> Range<u64> {
        self.number - u64::from(self.goes_on)..there.number
    }
}

/// How amounts are taken from intervals, and written as a tile.
pub(crate) struct Form<A> {
    pub(crate) amount: fn(&Interval, i64) -> (u32, A),
    /// The bytes of a tile whose buckets are so long.
    pub(crate) encode: fn(&Sums<A>, i64, &mut Vec<u8>),
}

/// Makes the tiles of a track.
pub(crate) struct Pyramid<'a, A> {
    pub(crate) intervals: Intervals<'a>,
    pub(crate) form: Form<A>,
    pub(crate) origin: i64,
    pub(crate) writer: &'a mut UnitWriter,
    pub(crate) tiles: Vec<TileEntry>,
}

impl<A: Amount> Pyramid<'_, A> {
    /// Makes all tiles up to the level at which the whole recording, which one tile of `top`
    /// covers, is one bucket. They are then in order of level and index.
    pub(crate) fn make(mut self, top: u8) -> Result<Vec<TileEntry>, TimelineError> {
        let chunks = &self.intervals.track.chunks;
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else {
            return Ok(self.tiles);
        };
        let index = |ts: i64| (ts - self.origin).div_euclid(tile_ns(top));
        let (first, last) = (index(first.first_ts), index(last.last_end));
        for index in first..=last {
            let (from, to) = self.places(top, index)?;
            let half = self.node(top, index, from, to)?;
            if (first, last) == (0, 0) && self.has_sums(top, index) {
                self.above(top, half)?;
            }
        }
        self.tiles.sort_by_key(|tile| (tile.level, tile.index));
        Ok(self.tiles)
    }

    fn has_sums(&self, level: u8, index: i64) -> bool {
        self.tiles.last().is_some_and(|tile| (tile.level, tile.index) == (level, index))
    }

    fn start(&self, level: u8, index: i64) -> i64 {
        self.origin + index * tile_ns(level)
    }

    fn places(&mut self, level: u8, index: i64) -> Result<(Place, Place), TimelineError> {
        let from = self.intervals.before(self.start(level, index))?;
        Ok((from, self.intervals.before(self.start(level, index) + tile_ns(level))?))
    }

    /// The tile's sums as half a tile of the level above.
    fn node(
        &mut self,
        level: u8,
        index: i64,
        from: Place,
        to: Place,
    ) -> Result<Sums<A>, TimelineError> {
        let numbers = from.until(to);
        let start = self.start(level, index);
        if numbers.end - numbers.start <= EXACT_INTERVALS {
            return self.added_up(start, level + 1, HALF, numbers);
        }
        let sums = if level == 0 {
            self.added_up(start, 0, TILE_BUCKETS, numbers)?
        } else {
            let middle = self.intervals.before(self.start(level - 1, 2 * index + 1))?;
            let mut sums = self.node(level - 1, 2 * index, from, middle)?;
            sums.append(self.node(level - 1, 2 * index + 1, middle, to)?);
            sums
        };
        self.write(level, index, &sums)?;
        Ok(sums.halved())
    }

    fn added_up(
        &mut self,
        start: i64,
        level: u8,
        buckets: usize,
        numbers: Range<u64>,
    ) -> Result<Sums<A>, TimelineError> {
        let mut summing = Summing::new(start, level, buckets, self.form.amount);
        self.intervals.each(numbers, |interval| summing.take(interval))?;
        Ok(summing.finish())
    }

    /// The levels above the top, each with half as many buckets.
    fn above(&mut self, top: u8, mut half: Sums<A>) -> Result<(), TimelineError> {
        for level in top + 1..=(top + 9).min(MAX_LEVEL) {
            half.close_until(TILE_BUCKETS);
            self.write(level, 0, &half)?;
            half = half.halved();
        }
        Ok(())
    }

    fn write(&mut self, level: u8, index: i64, sums: &Sums<A>) -> Result<(), TimelineError> {
        let offset = self.writer.offset();
        let (encode, tiles) = (self.form.encode, &mut self.tiles);
        self.writer.append(|to| {
            let from = to.len();
            encode(sums, 1 << level, to);
            let bytes = &to[from..];
            let crc = crc32fast::hash(bytes);
            // 512 buckets of 16 keys of 8 bytes at most.
            let bytes = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            tiles.push(TileEntry { level, index, offset, bytes, crc });
        })
    }
}
