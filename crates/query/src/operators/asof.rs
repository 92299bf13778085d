//! `asof`: for every left row the last right row of the same keys with `ts` ≤ the left row's.
//!
//! Both inputs come sorted by `ts`, so one pass is enough: right rows up to the left row's stamp
//! are noted as the last of their key, then the left row looks its key up. Nothing is sorted by
//! key and nothing is buffered but the last row of each key; output comes in the left's order.

use super::cursor::Cursor;
use super::held::{Held, RowRef, index};
use super::keys::{Interner, NO_SLOT};
use super::output::{Output, Recipe};
use arrow::array::ArrayRef;
use datafusion::error::Result;

/// Everything one as-of join keeps while it runs.
pub(crate) struct Asof {
    pub(crate) left: Cursor,
    pub(crate) right: Cursor,
    pub(crate) keys: Interner,
    pub(crate) held: Held,
    pub(crate) recipe: Recipe,
}

impl Asof {
    /// Runs the join to the end of the left input, or until nobody reads any more.
    pub(crate) async fn run(mut self, mut output: Output) -> Result<()> {
        let mut last: Vec<RowRef> = Vec::new();
        let mut right_batch = 0;
        while self.left.load(&mut self.keys).await? {
            let mut found = Vec::with_capacity(self.left.batch.ts.len());
            loop {
                last.resize(self.keys.count(), RowRef::NULL);
                self.advance(right_batch, &mut last, &mut found);
                if found.len() == self.left.batch.ts.len() {
                    break;
                }
                if self.right.load(&mut self.keys).await? {
                    self.tidy(&mut last, &mut found)?;
                    right_batch = self.held.push(self.right.batch.rows.clone());
                    output.resize(self.size_bytes(&last))?;
                }
            }
            if !output
                .send(
                    self.recipe
                        .left_and(&self.left.batch.rows, |column| self.take(column, &found))?,
                )
                .await
            {
                return Ok(());
            }
            output.resize(self.size_bytes(&last))?;
        }
        Ok(())
    }

    fn size_bytes(&self, last: &[RowRef]) -> usize {
        self.held.size_bytes() + self.keys.size_bytes() + size_of_val(last)
    }

    fn take(&self, column: usize, rows: &[RowRef]) -> Result<ArrayRef> {
        let rows: Vec<_> = rows.iter().copied().map(index).collect();
        self.held.take(column, &rows)
    }

    /// Answers left rows until the right batch runs dry; at the right's end, all of them.
    fn advance(&mut self, right_batch: u32, last: &mut [RowRef], found: &mut Vec<RowRef>) {
        let (left, right) = (&self.left.batch, &self.right.batch);
        let (right_ts, right_slots) = (right.ts.values(), &right.slots);
        let mut at = self.right.at;
        for (ts, slot) in left.ts.values().iter().zip(&left.slots).skip(found.len()) {
            while let (Some(right_ts), Some(slot)) = (right_ts.get(at), right_slots.get(at)) {
                if right_ts > ts {
                    break;
                }
                if let Some(last) = last.get_mut(*slot as usize) {
                    // A batch has far fewer rows than u32 counts.
                    #[allow(clippy::cast_possible_truncation)]
                    let row = at as u32;
                    *last = RowRef { batch: right_batch, row };
                }
                at += 1;
            }
            if at >= right_ts.len() && !self.right.done {
                break;
            }
            let row = if *slot == NO_SLOT { None } else { last.get(*slot as usize) };
            found.push(row.copied().unwrap_or(RowRef::NULL));
        }
        self.right.at = at;
    }

    /// Copies the rows still needed together when most of what is held is history: before the
    /// next right batch joins it, for then no row of the one before is to be read any more.
    fn tidy(&mut self, last: &mut [RowRef], found: &mut [RowRef]) -> Result<()> {
        if !self.held.wants_compaction(last.len() + found.len()) {
            return Ok(());
        }
        let mut needed = Vec::new();
        for row in last.iter_mut().chain(found).filter(|row| **row != RowRef::NULL) {
            needed.push(index(*row));
            *row = RowRef { batch: 1, row: u32::try_from(needed.len() - 1).unwrap_or(u32::MAX) };
        }
        self.held.compact(&needed)
    }
}
