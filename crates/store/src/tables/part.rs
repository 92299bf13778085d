//! The rows of one partition on their way to a file: what is in order, and what came too late.

use super::lane::{Lane, Order};
use super::pool::{Job, Pool, Rows};
use std::sync::Arc;

/// Rows of one row group at most.
pub(crate) const GROUP_ROWS: usize = 1 << 18;
/// Memory of all buffers that are being filled; beyond it the fullest is written.
pub(crate) const BUFFER_BYTES: usize = 96 << 20;
/// Rows that a buffer begins with.
const FIRST_ROWS: usize = 1 << 10;

/// A growing buffer of rows.
pub(crate) trait Buffer: Rows + Sized + 'static {
    /// One row.
    type Row<'a>;

    /// An empty one of the same kind.
    fn fresh(&self) -> Self;
    /// Takes a row.
    fn push(&mut self, row: Self::Row<'_>);
    /// Is there room for a row without more memory?
    fn has_room(&self) -> bool;
    /// Makes room for as many rows as it has, and more.
    fn grow(&mut self);
    /// Is it to become a row group?
    fn is_full(&self) -> bool;
    /// Memory that it holds.
    fn held_bytes(&self) -> usize;
}

/// A partition: rows in order of time go to one lane, late ones to another.
///
/// Rows come nearly in order of the *end* of their interval. A buffer that is full is sorted and
/// becomes a row group, and its last stamp the **floor**: rows before it that come later (intervals
/// that were open then, about one per thread) are late. So the files of the first lane, one behind
/// the other, are in order of `ts` as a whole, and each file of the second is in itself.
pub(crate) struct Part<B> {
    floor: i64,
    last_ts: i64,
    in_order: Side<B>,
    late: Side<B>,
}

struct Side<B> {
    rows: B,
    lane: Arc<Lane>,
    /// Row groups handed out.
    sealed: u64,
}

impl<B: Buffer> Part<B> {
    /// An empty one, with buffers like `empty`.
    pub(crate) fn new(empty: &B, lane: impl Fn(Order) -> Arc<Lane>) -> Self {
        let side = |order| Side { rows: empty.fresh(), lane: lane(order), sealed: 0 };
        let (in_order, late) = (side(Order::InOrder), side(Order::Late));
        Part { floor: i64::MIN, last_ts: i64::MIN, in_order, late }
    }

    /// Takes a row. True if a buffer needed more memory for it.
    pub(crate) fn push(&mut self, ts: i64, row: B::Row<'_>, pool: &Pool) -> bool {
        let side = if ts >= self.floor { &mut self.in_order } else { &mut self.late };
        self.last_ts = self.last_ts.max(ts);
        let mut grown = false;
        if !side.rows.has_room() {
            side.rows.grow();
            grown = true;
        }
        side.rows.push(row);
        if self.in_order.rows.is_full() {
            self.seal(pool);
        } else if self.late.rows.is_full() {
            self.late.seal(pool, false);
        }
        grown
    }

    /// Memory of its buffers.
    pub(crate) fn bytes(&self) -> usize {
        self.in_order.rows.held_bytes() + self.late.rows.held_bytes()
    }

    /// Writes what it has.
    pub(crate) fn seal_all(&mut self, pool: &Pool) {
        self.seal(pool);
        self.late.seal(pool, false);
    }

    fn seal(&mut self, pool: &Pool) {
        self.in_order.seal(pool, false);
        self.floor = self.last_ts;
    }

    /// Writes what it has, and closes its files.
    pub(crate) fn finish(&mut self, pool: &Pool) {
        self.in_order.seal(pool, true);
        self.late.seal(pool, true);
    }

    /// Rows written; after the pool has finished.
    pub(crate) fn rows(&self) -> u64 {
        self.in_order.lane.rows() + self.late.lane.rows()
    }
}

impl<B: Buffer> Side<B> {
    fn seal(&mut self, pool: &Pool, last: bool) {
        if self.rows.len() == 0 && !(last && self.sealed > 0) {
            return;
        }
        let fresh = self.rows.fresh();
        let rows = Box::new(std::mem::replace(&mut self.rows, fresh));
        let (lane, number) = (Arc::clone(&self.lane), self.sealed);
        self.sealed += 1;
        pool.submit(Job { rows, lane, number, last });
    }
}

/// A buffer of rows as they are.
pub(crate) struct RowBuffer<R>(Vec<R>);

impl<R> Default for RowBuffer<R> {
    fn default() -> Self {
        RowBuffer(Vec::new())
    }
}

impl<R: transect_model::column::Columnar + Send + 'static> Buffer for RowBuffer<R> {
    type Row<'a> = R;

    fn fresh(&self) -> Self {
        Self::default()
    }

    #[inline]
    fn push(&mut self, row: R) {
        self.0.push(row);
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.0.len() < self.0.capacity()
    }

    fn grow(&mut self) {
        let rows = (self.0.len() * 2).clamp(FIRST_ROWS, GROUP_ROWS);
        self.0.reserve_exact(rows - self.0.len());
    }

    fn is_full(&self) -> bool {
        self.0.len() >= GROUP_ROWS
    }

    fn held_bytes(&self) -> usize {
        self.0.capacity() * size_of::<R>()
    }
}

impl<R: transect_model::column::Columnar + Send> Rows for RowBuffer<R> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn encode(
        &mut self,
        group: &mut super::group::GroupEncoder<'_>,
    ) -> Result<(), crate::error::StoreError> {
        super::transpose::encode(&self.0, group)
    }
}
