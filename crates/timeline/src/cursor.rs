//! Looks into tracks that are made already, ever further on: what one track says of another's
//! intervals.

use crate::chunk::Interval;
use crate::error::TimelineError;
use crate::index::TrackEntry;
use crate::key::{Interner, RESERVED, RawKey};
use crate::sums::key_of;
use crate::track::Kind;
use crate::unit::Unit;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A place in a track; it only moves on.
pub(crate) struct Cursor {
    unit: Arc<Unit>,
    track: usize,
    /// The chunk that comes next.
    next_chunk: usize,
    intervals: Vec<Interval>,
    at: usize,
    /// Numbers in the new file of the unit's keys.
    keys: FxHashMap<u32, u32>,
}

impl Cursor {
    fn new(unit: &Arc<Unit>, track: usize) -> Self {
        let (unit, intervals, keys) = (Arc::clone(unit), Vec::new(), FxHashMap::default());
        Cursor { unit, track, next_chunk: 0, intervals, at: 0, keys }
    }

    fn entry(&self) -> &TrackEntry {
        &self.unit.index.tracks[self.track]
    }

    /// Calls `take` with the pieces of the track's intervals within `[from, to)`: start, end, key
    /// of the unit. `from` is never before that of an earlier call.
    pub(crate) fn pieces(
        &mut self,
        from: i64,
        to: i64,
        mut take: impl FnMut(&mut Self, i64, i64, u32),
    ) -> Result<(), TimelineError> {
        loop {
            while let Some(interval) = self.intervals.get(self.at).copied() {
                if interval.ts >= to {
                    return Ok(());
                }
                let (start, end) = (interval.ts.max(from), interval.end().min(to));
                if start < end {
                    take(self, start, end, key_of(&interval));
                }
                if interval.end() > to {
                    return Ok(());
                }
                self.at += 1;
            }
            if !self.next(from)? {
                return Ok(());
            }
        }
    }

    /// Reads the next chunk that may have something from `from` on; false at the end.
    fn next(&mut self, from: i64) -> Result<bool, TimelineError> {
        while let Some(chunk) = self.entry().chunks.get(self.next_chunk).copied() {
            self.next_chunk += 1;
            if chunk.last_end <= from {
                continue;
            }
            (self.at, _) = (0, self.intervals.clear());
            let unit = Arc::clone(&self.unit);
            unit.blobs.chunk(&chunk, &mut self.intervals)?;
            return Ok(true);
        }
        Ok(false)
    }

    /// The unit's key among those of the file that is being made.
    pub(crate) fn key(&mut self, key: u32, into: &mut Interner) -> u32 {
        if let Some(known) = self.keys.get(&key) {
            return *known;
        }
        let index = &self.unit.index;
        let raw = key.checked_sub(RESERVED).and_then(|at| index.keys.get(at as usize));
        let Some(raw) = raw else { return key };
        let word = |at: u32| index.words.get(at as usize).map_or("", String::as_str);
        let (state, reason) = (into.word(word(raw.state)), into.word(word(raw.reason)));
        let number = into.key(RawKey { state, reason, ..*raw });
        self.keys.insert(key, number);
        number
    }

    /// The unit's key itself.
    pub(crate) fn raw(&self, key: u32) -> Option<&RawKey> {
        self.unit.index.keys.get(key.checked_sub(RESERVED)? as usize)
    }
}

/// Cursors at the beginning of every first lane of a kind, by machine and number of the vCPU or
/// CPU.
pub(crate) fn cursors(units: &[Arc<Unit>], kind: Kind) -> FxHashMap<(u32, u32), Cursor> {
    let mut found = FxHashMap::default();
    for unit in units {
        for (at, track) in unit.index.tracks.iter().enumerate() {
            let actor = &track.actor;
            let number = actor.vcpu.or(actor.cpu).filter(|_| track.lane == 0);
            if let Some(number) = number.filter(|_| actor.kind == kind) {
                found.insert((actor.machine, number), Cursor::new(unit, at));
            }
        }
    }
    found
}
