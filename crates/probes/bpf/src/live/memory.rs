//! Mapped memory of the counting programs.
#![allow(unsafe_code, reason = "views into maps of the kernel's memory")]

use std::{
    io,
    os::fd::BorrowedFd,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

use super::layout::{Actor, Cpu, MAX_CPUS, Shared, Waits, copy, copy_actor};
use crate::memory::Mapping;

/// Tries at most to copy what the kernel is changing: a change takes less than a microsecond.
const TRIES: u32 = 10_000;

/// Everything mapped.
pub(crate) struct Memory {
    actors: Mapping,
    waits: Mapping,
    free: Mapping,
    shared: Mapping,
    cpus: Mapping,
    slots: u32,
    first: u32,
}

/// The maps' descriptors.
pub(crate) struct Maps<'a> {
    pub(crate) actors: BorrowedFd<'a>,
    pub(crate) waits: BorrowedFd<'a>,
    pub(crate) free: BorrowedFd<'a>,
    pub(crate) shared: BorrowedFd<'a>,
    pub(crate) cpus: BorrowedFd<'a>,
}

impl Memory {
    /// Maps them; `slots` is a power of two, those before `first` are idle threads.
    pub(crate) fn map(maps: &Maps<'_>, slots: u32, first: u32) -> io::Result<Self> {
        let each = |bytes: usize| bytes * slots as usize;
        let memory = Self {
            actors: Mapping::of(maps.actors, each(size_of::<Actor>()))?,
            waits: Mapping::of(maps.waits, each(size_of::<Waits>()))?,
            free: Mapping::of(maps.free, each(size_of::<u64>()))?,
            shared: Mapping::of(maps.shared, size_of::<Shared>())?,
            cpus: Mapping::of(maps.cpus, size_of::<Cpu>() * MAX_CPUS)?,
            slots,
            first,
        };
        for slot in first..slots {
            memory.release(slot);
        }
        Ok(memory)
    }

    pub(crate) fn shared(&self) -> &Shared {
        // SAFETY: the mapping is a page at least, page-aligned, of a repr(C) structure of atomics.
        unsafe { self.shared.start().cast().as_ref() }
    }

    /// Slots that can be in use.
    pub(crate) fn used(&self) -> u32 {
        let taken = self.shared().free_head.load(Relaxed);
        // The ring begins with the slots in order.
        u32::try_from(taken)
            .map_or(self.slots, |taken| taken.saturating_add(self.first))
            .min(self.slots)
    }

    /// Puts a slot among the free ones.
    pub(crate) fn release(&self, slot: u32) {
        let tail = &self.shared().free_tail;
        let at = tail.load(Relaxed);
        let index = usize::try_from(at % u64::from(self.slots)).unwrap_or(0);
        // SAFETY: within the mapping, which holds `slots` of them; a place is written before the
        // tail lets the programs read it, and never while they may.
        let place = unsafe { self.free.start().cast::<AtomicU64>().add(index).as_ref() };
        place.store(slot.into(), Relaxed);
        tail.store(at + 1, Release);
    }

    /// Nobody has the slot any more: the programs may give it to another thread.
    pub(crate) fn forget(&self, slot: u32) {
        // `state` and `tid`: a number that no thread has.
        Self::words::<Actor>(&self.actors, slot, self.slots)[3].store(0, Relaxed);
        self.release(slot);
    }

    fn words<T>(mapping: &Mapping, index: u32, limit: u32) -> &[AtomicU64] {
        let index = index.min(limit - 1) as usize;
        let count = size_of::<T>() / 8;
        // SAFETY: within the mapping, which holds `limit` of them, aligned to words.
        unsafe {
            std::slice::from_raw_parts(
                mapping.start().cast::<AtomicU64>().add(index * count).as_ptr(),
                count,
            )
        }
    }

    /// The thread in a slot, all of it of one moment; none if nobody has it or it cannot be caught. Of its
    /// sums those of one window are read, if any: the lines they lie in are another CPU's.
    pub(crate) fn actor(&self, slot: u32, window: Option<u32>) -> Option<Actor> {
        let words = Self::words::<Actor>(&self.actors, slot, self.slots);
        // `state` and `tid` are the fourth word, `window` and `seq` the third.
        let is_free = slot >= self.first && words[3].load(Relaxed) >> 32 == 0;
        if is_free {
            return None;
        }
        consistent(|| words[2].load(Acquire) >> 32, || copy_actor(words, window))
    }

    /// Has the thread in a slot begun another window since it was read?
    pub(crate) fn has_moved(&self, slot: u32, seq: u32) -> bool {
        Self::words::<Actor>(&self.actors, slot, self.slots)[2].load(Acquire) >> 32 != seq.into()
    }

    /// The waits of a slot. To be read while the slot is known not to move on.
    pub(crate) fn waits(&self, slot: u32) -> Option<Waits> {
        copy(Self::words::<Waits>(&self.waits, slot, self.slots))
    }

    /// Who had a CPU last.
    pub(crate) fn cpu(&self, cpu: u32) -> Option<Cpu> {
        let limit = u32::try_from(MAX_CPUS).unwrap_or(u32::MAX);
        let words = Self::words::<Cpu>(&self.cpus, cpu, limit);
        // `at` is the lower half of the first word, and whole whenever it is read.
        consistent(|| (words[0].load(Acquire) & 0xffff_ffff) << 1, || copy(words))
    }
}

/// Reads until nothing was changed meanwhile. An odd `seq` says that something is being changed.
fn consistent<T>(seq: impl Fn() -> u64, read: impl Fn() -> Option<T>) -> Option<T> {
    for _ in 0..TRIES {
        let before = seq();
        if before % 2 == 1 {
            std::hint::spin_loop();
            continue;
        }
        let value = read();
        fence(Acquire);
        if seq() == before {
            return value;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_changes_while_it_is_read_is_read_again() {
        // Being changed; changed between two reads; then left alone.
        let seqs = Cell::new([1, 2, 4, 4, 4].as_slice());
        let seq = || {
            let (next, rest) = seqs.get().split_first().unwrap();
            seqs.set(rest);
            *next
        };
        let reads = Cell::new(0);
        let read = || {
            reads.set(reads.get() + 1);
            Some(reads.get())
        };
        assert_eq!(consistent(seq, read), Some(2));
        assert_eq!(consistent(|| 1, || Some(())), None);
    }
}
