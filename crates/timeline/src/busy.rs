//! How busy a track was in a range: which of many rows are worth their place on a screen.

use crate::error::TimelineError;
use crate::pyramid::tile_ns;
use crate::sums::WHOLE;
use crate::tile::Share;
use crate::view::{Shown, Tile, View};

impl View {
    /// Time of `[from, to)` in which something was done on a track, or waited for the CPU: what
    /// `busy_ns` of the tracks is for the whole recording. Exact where the tiles are; else of the
    /// buckets at the range's ends their part, and shares are of 1/65535. Two tiles are read.
    ///
    /// # Errors
    /// There is no such track, or its file is damaged.
    pub fn busy_ns(&self, track: u32, from: i64, to: i64) -> Result<i64, TimelineError> {
        let (from, to) = (from.max(self.origin()), to.min(self.to()));
        if from >= to {
            return Ok(0);
        }
        let level = (0..self.top_level()).find(|level| tile_ns(*level) >= to - from);
        let level = level.unwrap_or(self.top_level());
        let at = |ts: i64| (ts - self.origin()) / tile_ns(level);
        let mut ns = 0;
        for index in at(from)..=at(to - 1) {
            let start = self.origin() + index * tile_ns(level);
            ns += match self.tile(track, level, index)? {
                // An interval that reaches into both tiles is told by both.
                Some(Tile::Exact(shown)) => {
                    self.of_intervals(&shown, from.max(start), to.min(start + tile_ns(level)))
                }
                Some(Tile::Shares(shares)) => self.of_shares(&shares, (start, level), from, to),
                Some(Tile::Values(_)) | None => 0,
            };
        }
        Ok(ns)
    }

    fn is_rest(&self, key: u32) -> bool {
        self.keys().get(key as usize).is_none_or(|key| key.class.is_rest())
    }

    fn of_intervals(&self, shown: &[Shown], from: i64, to: i64) -> i64 {
        let busy = shown.iter().filter(|interval| !self.is_rest(interval.key));
        let within = busy.map(|i| (i.ts.saturating_add(i.dur)).min(to) - i.ts.max(from));
        within.filter(|ns| *ns > 0).sum()
    }

    fn of_shares(&self, shares: &[Share], (start, level): (i64, u8), from: i64, to: i64) -> i64 {
        let length = 1_i64 << level;
        let busy = shares.iter().filter(|share| !self.is_rest(share.key));
        let ns = busy.map(|share| {
            let at = start + i64::from(share.bucket) * length;
            let within = (at + length).min(to) - at.max(from);
            i128::from(within.max(0)) * i128::from(share.share) / i128::from(WHOLE)
        });
        i64::try_from(ns.sum::<i128>()).unwrap_or(i64::MAX)
    }
}
