//! The next interval of certain keys: what "go to the next match" asks for.

use crate::error::TimelineError;
use crate::view::{Shown, View};
use std::collections::BTreeSet;

/// What a search may read before it gives up: 16 chunks are about 65,000 intervals.
#[derive(Debug)]
pub struct Budget(u64);

impl Budget {
    /// So many chunks.
    pub fn chunks(chunks: u64) -> Self {
        Budget(chunks)
    }

    /// Was it used up, so that there may be more than was found?
    pub fn is_spent(&self) -> bool {
        self.0 == 0
    }
}

impl View {
    /// The first interval of a track that begins in `[from, to)` and has one of these keys.
    ///
    /// # Errors
    /// There is no such track, or its file is damaged.
    pub fn next_of(
        &self,
        track: u32,
        (from, to): (i64, i64),
        keys: &BTreeSet<u32>,
        budget: &mut Budget,
    ) -> Result<Option<Shown>, TimelineError> {
        let mut at = from;
        while at < to && !budget.is_spent() {
            budget.0 -= 1;
            // A chunk or two at a time: the match may be near.
            let some = self.intervals(track, at, to, 1024)?;
            let is_match = |interval: &&Shown| interval.ts >= from && keys.contains(&interval.key);
            if let Some(found) = some.iter().find(is_match) {
                return Ok(Some(*found));
            }
            match some.last() {
                // What is told next begins after it; an instant at that very moment is told again.
                Some(last) if some.len() == 1024 => at = (last.ts + last.dur).max(at + 1),
                _ => return Ok(None),
            }
        }
        Ok(None)
    }
}
