//! The table from thread numbers to the places of threads.

use serde::{Deserialize, Serialize};
use transect_model::ids::Tid;

/// Index of a thread in [`Threads`](super::thread::Threads).
pub(crate) type Slot = usize;

/// The largest thread id Linux can give (`PID_MAX_LIMIT`, include/linux/threads.h).
pub(super) const PID_MAX: i32 = 4 * 1024 * 1024;

/// Slots by thread number: pages of a table that is as long as the largest number, of which only
/// those exist that numbers were used of. Every waking and switch looks one up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Slots(Vec<Vec<u32>>);

impl Slots {
    const PAGE_BITS: u32 = 8;
    pub(super) const NONE: u32 = u32::MAX;

    #[inline]
    fn place(tid: Tid) -> Option<(usize, usize)> {
        let number = usize::try_from(tid.0).ok()?;
        Some((number >> Self::PAGE_BITS, number & ((1 << Self::PAGE_BITS) - 1)))
    }

    #[inline]
    pub(super) fn get(&self, tid: Tid) -> Option<Slot> {
        let (page, at) = Self::place(tid)?;
        let slot = *self.0.get(page)?.get(at)?;
        (slot != Self::NONE).then_some(slot as usize)
    }

    /// For numbers up to [`PID_MAX`] only, which bounds the table.
    pub(super) fn set(&mut self, tid: Tid, slot: u32) {
        let Some((page, at)) = Self::place(tid) else { return };
        if self.0.len() <= page {
            self.0.resize(page + 1, Vec::new());
        }
        let page = &mut self.0[page];
        page.resize(1 << Self::PAGE_BITS, Self::NONE);
        page[at] = slot;
    }
}
