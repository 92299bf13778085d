//! How long and how often each key of a track was there in a range, exactly.

use crate::error::TimelineError;
use crate::index::Codes;
use crate::sums::key_of;
use crate::view::View;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a key has of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeySum {
    /// Time of its intervals within the range, ns.
    pub ns: i64,
    /// Intervals that reach into the range, instants in it included.
    pub count: u64,
}

impl View {
    /// Adds to `sums` what each key of a track has of `[from, to)`. An interval that reaches into the
    /// range counts once, with the part of its length that is within. Tracks of numbers have no keys.
    ///
    /// Every chunk of the range is decoded once, and one at a time is held: 4,096 intervals take a few
    /// ten µs. `is_wanted` is asked before each.
    ///
    /// # Errors
    /// There is no such track, or its file is damaged; [`TimelineError::Stopped`] once `is_wanted`
    /// returns false.
    pub fn add_key_sums(
        &self,
        track: u32,
        (from, to): (i64, i64),
        is_wanted: &dyn Fn() -> bool,
        sums: &mut BTreeMap<u32, KeySum>,
    ) -> Result<(), TimelineError> {
        let found = self.track(track);
        let found = found.ok_or_else(|| TimelineError::Request(format!("no track {track}")))?;
        let Some((number, unit, entry)) = self.stored(found) else { return Ok(()) };
        if matches!(entry.codes, Codes::Values(_)) {
            return Ok(());
        }
        let mut of_unit: FxHashMap<u32, KeySum> = FxHashMap::default();
        let mut intervals = Vec::new();
        for chunk in &entry.chunks[entry.chunks_in(from, to)] {
            if !is_wanted() {
                return Err(TimelineError::Stopped);
            }
            intervals.clear();
            unit.blobs.chunk(chunk, &mut intervals)?;
            // In order of their ends, too: they do not overlap.
            let first = intervals.partition_point(|i| i.end() <= from && i.ts < from);
            for interval in intervals[first..].iter().take_while(|i| i.ts < to) {
                let sum = of_unit.entry(key_of(interval)).or_default();
                sum.ns += interval.end().min(to) - interval.ts.max(from);
                sum.count += 1;
            }
        }
        for (key, sum) in of_unit {
            let whole = sums.entry(self.key_number(number, key)).or_default();
            whole.ns += sum.ns;
            whole.count += sum.count;
        }
        Ok(())
    }
}
