//! What `bpf/live.h` shares with the programs, field by field, and copies of it out of mapped memory.
//!
//! The kernel writes while this process reads: mapped memory is only ever touched as atomic words,
//! and what has been copied is a plain structure. A test compares the offset of every field with
//! those in the object's own BTF.
#![allow(unsafe_code, reason = "structures as the words the programs have")]

use std::{
    mem::{MaybeUninit, offset_of},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// `LIVE_MAX_CPUS`.
pub(crate) const MAX_CPUS: usize = 1024;
/// `LIVE_BUCKETS`.
pub const BUCKETS: usize = 100;
/// `LIVE_RIVALS`.
pub(crate) const RIVALS: usize = 4;
/// `LIVE_STAYS`.
pub(crate) const STAYS: usize = 8;

/// `LIVE_NOBODY`.
pub(crate) const NOBODY: u32 = u32::MAX;

/// `enum live_state`.
pub(crate) mod state {
    pub(crate) const NONE: usize = 0;
    pub(crate) const RUNNING: usize = 1;
    pub(crate) const PREEMPTED: usize = 3;
    pub(crate) const WAKING: usize = 4;
    pub(crate) const ASLEEP: usize = 5;
    pub(crate) const HALTED: usize = 6;
    pub(crate) const GONE: usize = 7;
}

/// `LIVE_BORN`: the thread began while it was watched.
pub(crate) const BORN: u32 = 1;
/// `LIVE_HAS_VCPU`: it is a vCPU's, whose number is known.
pub(crate) const HAS_VCPU: u32 = 2;

/// `struct live_config`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Config {
    pub(crate) window_ns: u64,
    pub(crate) slots: u32,
    pub(crate) cpus: u32,
    pub(crate) halts: [u32; 2],
    pub(crate) switch_has_state: u8,
    pub(crate) empty: u8,
    pub(crate) spare: [u8; 6],
}

/// `struct live_rival`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rival {
    pub(crate) slot: u32,
    pub(crate) times: u32,
    pub(crate) ns: u64,
}

/// `struct live_sums`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) window: u32,
    pub(crate) executions: u32,
    pub(crate) ns: [u64; 8],
    pub(crate) guest_ns: u64,
    pub(crate) slices_ns: u64,
    pub(crate) slice_min_ns: u64,
    pub(crate) slice_max_ns: u64,
    pub(crate) slices: u32,
    pub(crate) migrations: u32,
    pub(crate) exits: u32,
    pub(crate) io: u32,
    pub(crate) irqs: u32,
    pub(crate) injections: u32,
    pub(crate) halts: u32,
    pub(crate) polled: u32,
    pub(crate) poll_ns: u64,
    pub(crate) wait_max_ns: u64,
    pub(crate) others_ns: u64,
    pub(crate) unattributed_ns: u64,
    pub(crate) rivals: [Rival; RIVALS],
}

/// `struct live_actor`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Actor {
    pub(crate) since: u64,
    pub(crate) end_ns: u64,
    pub(crate) window: u32,
    pub(crate) seq: u32,
    pub(crate) state: u32,
    pub(crate) tid: u32,
    pub(crate) in_since: u64,
    pub(crate) out_since: u64,
    pub(crate) woken: u64,
    pub(crate) on_cpu_ns: u64,
    pub(crate) guest_since: u64,
    pub(crate) exit_since: u64,
    pub(crate) exit_on_cpu_ns: u64,
    pub(crate) asleep_from: u64,
    pub(crate) queue_since: u64,
    pub(crate) exit_reason: u32,
    pub(crate) mode: u32,
    pub(crate) vcpu: u32,
    pub(crate) flags: u32,
    pub(crate) poll_window_ns: u32,
    pub(crate) cpu: u32,
    pub(crate) known_from: u64,
    pub(crate) tgid: u32,
    pub(crate) parent_tgid: u32,
    pub(crate) generation: u32,
    pub(crate) next_poll_window_ns: u32,
    pub(crate) comm: [u8; 16],
    pub(crate) asleep_to: u64,
    pub(crate) more_spare: [u64; 2],
    pub(crate) sums: [Sums; 2],
}

/// `struct live_waits`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    pub(crate) window: [u32; 2],
    pub(crate) buckets: [[u32; BUCKETS]; 2],
}

/// `struct live_durations`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Durations {
    pub(crate) count: u64,
    pub(crate) total_ns: u64,
    pub(crate) amount: u64,
    pub(crate) max_ns: u64,
    pub(crate) buckets: [u32; BUCKETS],
}

/// `struct live_exit_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExitKey {
    pub(crate) slot: u32,
    pub(crate) reason: u32,
    pub(crate) window: u32,
    pub(crate) generation: u32,
}

/// `struct live_io_key`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IoKey {
    pub(crate) who: u32,
    pub(crate) kind: u32,
    pub(crate) window: u32,
    pub(crate) spare: u32,
}

/// `struct live_cpu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cpu {
    pub(crate) at: u32,
    pub(crate) spare_slot: u32,
    pub(crate) seen: u64,
    pub(crate) since: [u64; STAYS],
    pub(crate) slot: [u32; STAYS],
    pub(crate) more_spare: [u64; 2],
}

/// `struct live_shared`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) free_head: AtomicU64,
    pub(crate) free_tail: AtomicU64,
    pub(crate) untracked: AtomicU64,
    pub(crate) no_room: AtomicU64,
    pub(crate) unwoken: AtomicU64,
    pub(crate) spare: [AtomicU64; 3],
}

/// Structures of integers without padding, of whole words: any bytes are one.
///
/// # Safety
/// `repr(C)`, integers and arrays of them only, no padding, size a multiple of 8, alignment at most 8.
pub(crate) unsafe trait Words: Copy {}

// SAFETY: as listed; the sizes are asserted below, and fields are in an order without gaps.
unsafe impl Words for Actor {}
// SAFETY: as above.
unsafe impl Words for Waits {}
// SAFETY: as above.
unsafe impl Words for Cpu {}
// SAFETY: as above.
unsafe impl Words for Durations {}
// SAFETY: as above.
unsafe impl Words for ExitKey {}
// SAFETY: as above.
unsafe impl Words for IoKey {}
// SAFETY: as above.
unsafe impl Words for Config {}

const _: () = assert!(
    size_of::<Config>() == 32
        && size_of::<Sums>() == 232
        && size_of::<Actor>() == 192 + 2 * 232
        && size_of::<Waits>() == 808
        && size_of::<Durations>() == 432
        && size_of::<ExitKey>() == 16
        && size_of::<IoKey>() == 16
        && size_of::<Cpu>() == 128
        && size_of::<Shared>() == 64
);

/// Copies a structure out of memory that the kernel may be writing. Word by word: whether the words
/// belong together is for the caller to find out.
pub(crate) fn copy<T: Words>(words: &[AtomicU64]) -> Option<T> {
    let words = words.get(..size_of::<T>() / 8)?;
    let mut value = MaybeUninit::<T>::uninit();
    let start = value.as_mut_ptr().cast::<u64>();
    for (at, word) in words.iter().enumerate() {
        // SAFETY: within the structure, whose size is that many words.
        unsafe { start.add(at).write_unaligned(word.load(Relaxed)) };
    }
    // SAFETY: every byte was written, and any words are one (see the trait).
    Some(unsafe { value.assume_init() })
}

/// Copies an actor like [`copy`], of its sums only those of one window (by its number's lower half), and
/// these only if there are any: who had no event since an earlier window has none.
pub(crate) fn copy_actor(words: &[AtomicU64], window: Option<u32>) -> Option<Actor> {
    const HEAD: usize = offset_of!(Actor, sums) / 8;
    const SUMS: usize = size_of::<Sums>() / 8;
    let mut actor = Actor::default();
    // SAFETY: a repr(C) structure of integers, of whole words and aligned to them, without padding (see
    // `Words`).
    let into: &mut [u64; size_of::<Actor>() / 8] = unsafe { &mut *(&raw mut actor).cast() };
    let copy = |into: &mut [u64], from: &[AtomicU64]| {
        for (into, from) in into.iter_mut().zip(from) {
            *into = from.load(Relaxed);
        }
    };
    copy(into.get_mut(..HEAD)?, words.get(..HEAD)?);
    let Some(window) = window else { return Some(actor) };
    let at = HEAD + SUMS * (window & 1) as usize;
    let is_behind = (into[HEAD_OF_WINDOW] & u64::from(u32::MAX))
        .try_into()
        .is_ok_and(|now: u32| now.wrapping_sub(window) > u32::MAX / 2);
    if !is_behind {
        copy(into.get_mut(at..at + SUMS)?, words.get(at..at + SUMS)?);
    }
    Some(actor)
}

/// The word whose lower half is an actor's window.
const HEAD_OF_WINDOW: usize = offset_of!(Actor, window) / 8;

/// A structure from its bytes, as the kernel gave them.
pub(crate) fn from_bytes<T: Words>(bytes: &[u8]) -> Option<T> {
    // SAFETY: long enough as checked, read without regard to alignment, and any bytes are one.
    (bytes.len() >= size_of::<T>()).then(|| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a structure.
pub(crate) fn to_bytes<T: Words>(value: &T) -> &[u8] {
    // SAFETY: no padding (see the trait), so every byte is initialised.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libbpf_rs::btf::{
        Btf,
        types::{MemberAttr, Struct},
    };
    use std::collections::BTreeMap;

    fn in_object(name: &str) -> BTreeMap<String, usize> {
        let btf = Btf::from_path(concat!(env!("OUT_DIR"), "/live.bpf.o")).unwrap();
        let found = btf.type_by_name::<Struct<'_>>(name).unwrap();
        let bytes = |attr: MemberAttr| match attr {
            MemberAttr::Normal { offset } => offset as usize / 8,
            MemberAttr::BitField { .. } => panic!("no bit fields here"),
        };
        found
            .iter()
            .map(|m| (m.name.unwrap().to_string_lossy().into_owned(), bytes(m.attr)))
            .collect()
    }

    macro_rules! offsets {
        ($type:ty: $($field:ident)*) => {
            BTreeMap::from([$((stringify!($field).to_owned(), offset_of!($type, $field))),*])
        };
    }

    #[test]
    fn every_field_lies_where_the_programs_have_it() {
        assert_eq!(
            in_object("live_config"),
            offsets!(Config: window_ns slots cpus halts switch_has_state empty spare)
        );
        assert_eq!(in_object("live_rival"), offsets!(Rival: slot times ns));
        assert_eq!(
            in_object("live_sums"),
            offsets!(Sums: window executions ns guest_ns slices_ns slice_min_ns slice_max_ns slices
                migrations exits io irqs injections halts polled poll_ns wait_max_ns others_ns
                unattributed_ns rivals)
        );
        assert_eq!(
            in_object("live_actor"),
            offsets!(Actor: since end_ns window seq state tid in_since out_since woken on_cpu_ns
                guest_since exit_since exit_on_cpu_ns asleep_from queue_since exit_reason mode vcpu flags
                poll_window_ns cpu known_from tgid parent_tgid generation next_poll_window_ns comm asleep_to more_spare
                sums)
        );
        assert_eq!(in_object("live_waits"), offsets!(Waits: window buckets));
        assert_eq!(
            in_object("live_durations"),
            offsets!(Durations: count total_ns amount max_ns buckets)
        );
        assert_eq!(in_object("live_exit_key"), offsets!(ExitKey: slot reason window generation));
        assert_eq!(in_object("live_io_key"), offsets!(IoKey: who kind window spare));
        assert_eq!(in_object("live_cpu"), offsets!(Cpu: at spare_slot seen since slot more_spare));
        assert_eq!(
            in_object("live_shared"),
            offsets!(Shared: free_head free_tail untracked no_room unwoken spare)
        );
    }
}
