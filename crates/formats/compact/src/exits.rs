//! VM exits that a chunk has told in full, by the number of a slot.
//!
//! A guest leaves for the same reason at the same place again and again. The first record of such
//! an exit in a chunk says all of it and takes a slot; those after it (KVM_EXIT_R, KVM_EXIT_ENTRY_R)
//! name the slot. Writer and reader keep the same slots.

#![allow(
    clippy::cast_possible_truncation,
    reason = "a slot's number has four bits, reason and vCPU twelve each"
)]

/// Slots there are.
const SLOTS: usize = 16;

/// What an exit's record says beside its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToldExit {
    /// From bit 0: reason:12 vcpu:12 info1:32.
    pub(crate) what: u64,
    pub(crate) rip: u64,
}

impl ToldExit {
    /// Of `a` of a KVM_EXIT and its words; `None` if it is one of those that take no slot.
    #[inline(always)]
    pub(crate) fn of_long(a: u64, rip: u64, info1: u64) -> Option<Self> {
        let (reason, vcpu) = (a & 0xffff, a >> 16 & 0xffff);
        let fits = a >> 32 == 0 && reason < 1 << 12 && vcpu < 0xfff && info1 >> 32 == 0;
        fits.then_some(ToldExit { what: reason | vcpu << 12 | info1 << 24, rip })
    }

    /// Of `a` of a KVM_EXIT_ENTRY, and its info1.
    #[inline(always)]
    pub(crate) fn of_folded(a: u64, rip: u64, info1: u64) -> Self {
        ToldExit { what: a & 0xff_ffff | info1 << 24, rip }
    }

    /// Of `a` of the short kinds, which is laid out so.
    #[inline(always)]
    pub(crate) fn of_short(a: u64, rip: u64) -> Self {
        ToldExit { what: a, rip }
    }

    /// The slot this exit takes. The upper bits of the product depend on all of both.
    fn slot(self) -> usize {
        (self.what.wrapping_add(self.rip).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
    }
}

/// The slots of one log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exits {
    slots: [ToldExit; SLOTS],
    /// A bit for each slot that is taken.
    taken: u16,
}

impl Exits {
    /// A SYNC: no slot is taken.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.taken = 0;
    }

    /// A record has told this exit.
    #[inline(always)]
    pub(crate) fn take(&mut self, exit: ToldExit) {
        let slot = exit.slot();
        self.slots[slot] = exit;
        self.taken |= 1 << slot;
    }

    /// The slot that has this exit.
    pub(crate) fn find(&self, exit: ToldExit) -> Option<u64> {
        let slot = exit.slot();
        (self.taken >> slot & 1 != 0 && self.slots[slot] == exit).then_some(slot as u64)
    }

    /// The exit of a slot (its four lowest bits); `None` if nothing took it.
    #[inline(always)]
    pub(crate) fn get(&self, slot: u64) -> Option<ToldExit> {
        let slot = (slot & 15) as usize;
        (self.taken >> slot & 1 != 0).then(|| self.slots[slot])
    }
}
