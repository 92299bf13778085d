//! `interval_join`: every pair of a left and a right interval with equal keys that overlap.
//!
//! Both inputs come sorted by `ts` and are swept in one pass: an interval that begins is paired
//! with those of the other side that are open, then it is open itself until its end has passed.
//! What is kept is the open intervals. Pairs come in order of where their overlap begins.
//!
//! Intervals are half open, `[ts, ts + dur)`. An instant (`dur` 0) counts as one nanosecond for
//! the question whether it lies in an interval; its overlap has `dur` 0. A null `dur` is open to
//! the end of the recording.

use super::cursor::{Cursor, OPEN};
use super::held::{Held, RowRef, index};
use super::keys::{Interner, NO_SLOT};
use super::output::{Output, Overlaps, Recipe};
use datafusion::error::Result;

/// An interval that has begun.
#[derive(Clone, Copy, Debug)]
struct Open {
    end: i64,
    row: RowRef,
}

impl Open {
    /// Has it ended when something begins at `ts`, instants at their own stamp excepted?
    fn is_over(&self, ts: i64, began: i64) -> bool {
        self.end <= ts && !(self.end == began && began == ts)
    }
}

/// One input, what of it is open, and the rows that may still be needed.
pub(crate) struct Side {
    pub(crate) cursor: Cursor,
    pub(crate) held: Held,
    batch: u32,
    open: Vec<Slot>,
    count: usize,
}

/// The open intervals of one key.
#[derive(Clone, Debug, Default)]
struct Slot {
    open: Vec<Began>,
    /// Length at which ended intervals are looked for next, so that the search is amortized.
    tidy_at: usize,
}

#[derive(Clone, Copy, Debug)]
struct Began {
    ts: i64,
    open: Open,
}

impl Side {
    pub(crate) fn new(cursor: Cursor, held: Held) -> Self {
        Self { cursor, held, batch: 0, open: Vec::new(), count: 0 }
    }

    async fn load(&mut self, keys: &mut Interner) -> Result<()> {
        if self.cursor.is_dry() && !self.cursor.done && self.cursor.load(keys).await? {
            self.batch = self.held.push(self.cursor.batch.rows.clone());
        }
        Ok(())
    }

    /// The stamp of the row it has come to.
    fn ts(&self) -> Option<i64> {
        self.cursor.batch.ts.values().get(self.cursor.at).copied()
    }

    fn tidy(&mut self, now: i64) -> Result<()> {
        if !self.held.wants_compaction(self.count + self.cursor.batch.ts.len()) {
            return Ok(());
        }
        self.count = 0;
        let mut needed = Vec::new();
        for slot in &mut self.open {
            slot.open.retain(|began| !began.open.is_over(now, began.ts));
            self.count += slot.open.len();
            for began in &mut slot.open {
                needed.push(index(began.open.row));
                let row = u32::try_from(needed.len() - 1).unwrap_or(u32::MAX);
                began.open.row = RowRef { batch: 1, row };
            }
        }
        self.held.compact(&needed)?;
        self.batch = self.held.push(self.cursor.batch.rows.clone());
        Ok(())
    }

    fn size_bytes(&self) -> usize {
        self.held.size_bytes() + (self.count + self.open.len()) * size_of::<Began>()
    }
}

/// Everything one interval join keeps while it runs.
pub(crate) struct IntervalJoin {
    pub(crate) left: Side,
    pub(crate) right: Side,
    pub(crate) keys: Interner,
    pub(crate) recipe: Recipe,
    /// Pairs a batch of output.
    pub(crate) batch_rows: usize,
}

impl IntervalJoin {
    /// Runs the join to its end, or until nobody reads any more.
    pub(crate) async fn run(mut self, mut output: Output) -> Result<()> {
        let mut pairs = Overlaps::default();
        loop {
            self.left.load(&mut self.keys).await?;
            self.right.load(&mut self.keys).await?;
            self.left.open.resize(self.keys.count(), Slot::default());
            self.right.open.resize(self.keys.count(), Slot::default());
            let now = self.sweep(&mut pairs);
            let finished = self.is_finished();
            let is_due = pairs.ts.len() >= self.batch_rows || (finished && !pairs.ts.is_empty());
            if is_due && !output.send(self.flush(&mut pairs)?).await {
                return Ok(());
            }
            if finished {
                return Ok(());
            }
            // Pairs not yet given out name rows by where they are: nothing may move before.
            if pairs.ts.is_empty() {
                self.left.tidy(now)?;
                self.right.tidy(now)?;
            } else if self.left.held.wants_compaction(self.left.count)
                || self.right.held.wants_compaction(self.right.count)
            {
                let batch = self.flush(&mut pairs)?;
                if !output.send(batch).await {
                    return Ok(());
                }
                self.left.tidy(now)?;
                self.right.tidy(now)?;
            }
            let bytes = self.left.size_bytes() + self.right.size_bytes() + self.keys.size_bytes();
            output.resize(bytes + pairs.ts.len() * 48)?;
        }
    }

    /// Is there nothing left that could overlap?
    fn is_finished(&self) -> bool {
        let ended = |side: &Side| side.cursor.is_dry() && side.cursor.done;
        let empty = |side: &Side| ended(side) && side.count == 0;
        (ended(&self.left) && ended(&self.right)) || empty(&self.left) || empty(&self.right)
    }

    fn flush(&self, pairs: &mut Overlaps) -> Result<arrow::array::RecordBatch> {
        let batch = self.recipe.overlaps(
            pairs,
            |column, rows| self.left.held.take(column, rows),
            |column, rows| self.right.held.take(column, rows),
        );
        pairs.clear();
        batch
    }

    /// Sweeps until one input runs dry or a batch of pairs is full; the stamp it came to.
    fn sweep(&mut self, pairs: &mut Overlaps) -> i64 {
        let mut now = i64::MIN;
        while pairs.ts.len() < self.batch_rows {
            match (self.left.ts(), self.right.ts()) {
                (Some(left), right) if right.is_none_or(|right| left <= right) => {
                    if right.is_none() && !self.right.cursor.done {
                        break;
                    }
                    now = left;
                    begin(&mut self.left, &mut self.right, left, |open, other, end| {
                        pairs.push(left, end, open.row, other.row);
                    });
                }
                (left, Some(right)) => {
                    if left.is_none() && !self.left.cursor.done {
                        break;
                    }
                    now = right;
                    begin(&mut self.right, &mut self.left, right, |open, other, end| {
                        pairs.push(right, end, other.row, open.row);
                    });
                }
                (Some(_) | None, None) => break,
            }
        }
        now
    }
}

impl Overlaps {
    fn push(&mut self, ts: i64, end: i64, left: RowRef, right: RowRef) {
        self.ts.push(ts);
        self.end.push(end);
        self.left.push(index(left));
        self.right.push(index(right));
    }

    fn clear(&mut self) {
        self.ts.clear();
        self.end.clear();
        self.left.clear();
        self.right.clear();
    }
}

/// The interval `side` has come to begins: pairs it with the other side's open ones, opens it.
fn begin(side: &mut Side, other: &mut Side, ts: i64, mut pair: impl FnMut(Open, Open, i64)) {
    let at = side.cursor.at;
    side.cursor.at += 1;
    let (Some(slot), Some(end)) = (side.cursor.batch.slots.get(at), side.cursor.batch.end.get(at))
    else {
        return;
    };
    if *slot == NO_SLOT {
        return;
    }
    let row = RowRef { batch: side.batch, row: u32::try_from(at).unwrap_or(u32::MAX) };
    let open = Open { end: *end, row };
    let slot = *slot as usize;
    if let Some(others) = other.open.get_mut(slot) {
        let before = others.open.len();
        others.open.retain(|began| {
            let over = began.open.is_over(ts, began.ts);
            if !over {
                pair(open, began.open, end_of(open.end.min(began.open.end), ts));
            }
            !over
        });
        other.count -= before - others.open.len();
    }
    if let Some(own) = side.open.get_mut(slot) {
        if own.open.len() >= own.tidy_at {
            let before = own.open.len();
            own.open.retain(|began| !began.open.is_over(ts, began.ts));
            side.count -= before - own.open.len();
            own.tidy_at = (2 * own.open.len()).max(4);
        }
        own.open.push(Began { ts, open });
        side.count += 1;
    }
}

/// Where an overlap that begins at `ts` ends: at an instant, where it begins.
fn end_of(end: i64, ts: i64) -> i64 {
    if end == OPEN { OPEN } else { end.max(ts) }
}
