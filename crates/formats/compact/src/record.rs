//! Bits of a record: the first word, and the small codes inside it.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "bit fields: every narrowing here is the format's own, and masked or checked before"
)]

use crate::kind;
use transect_model::{
    event::{Access, BlockOp, PrevState},
    exit::Isa,
    interrupt::{Context, VectorSource},
};

/// Bytes of a word, the unit of the format.
pub const WORD_BYTES: usize = 8;
/// Bytes of a chunk: every one begins with SYNC and can be read on its own.
pub const CHUNK_BYTES: usize = 32 * 1024;
/// Words of a chunk.
pub const CHUNK_WORDS: usize = CHUNK_BYTES / WORD_BYTES;
/// One more than the longest delta a record's first word holds, in ns (16.7 ms).
pub const DELTA_LIMIT_NS: u64 = 1 << 24;
/// Bits of `a`, the payload in a record's first word.
pub const A_BITS: u32 = 34;

/// Priority where the format does not carry one (waking threads, a thread that already ran when
/// the chunk began). No scheduler class has such a priority.
pub const PRIO_UNKNOWN: i32 = i32::MIN;
/// vCPU number that means "not told" in KVM_ENTRY and KVM_EXIT.
pub const VCPU_UNKNOWN: u64 = 0xffff;
/// The same in the kinds that have 12 bits for it.
pub const VCPU_UNKNOWN_S: u64 = 0xfff;
/// The same in the kind that has 8 bits for it.
pub(crate) const VCPU_UNKNOWN_INJ: u64 = 0xff;
/// Exit reason −1 (SVM's "invalid guest state") in KVM_EXIT.
pub const REASON_INVALID: u64 = 0xffff;
/// SYNC flag: nothing was written to this log before.
pub const SYNC_FIRST: u64 = 1;
/// SYNC flag: this is a side log.
pub const SYNC_SIDE: u64 = 2;

/// One record without its time: kind, payload, and the words after the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) kind: u8,
    pub(crate) a: u64,
    pub(crate) rest: [u64; 2],
}

impl Raw {
    pub(crate) fn new(kind: u8, a: u64, w1: u64, w2: u64) -> Self {
        debug_assert!(a >> A_BITS == 0, "kind {kind}: a is {a:#x}");
        Raw { kind, a, rest: [w1, w2] }
    }

    pub(crate) fn words(&self) -> usize {
        usize::from(kind::WORDS[usize::from(self.kind & 63)])
    }

    pub(crate) fn first(&self, delta_ns: u64) -> u64 {
        debug_assert!(delta_ns < DELTA_LIMIT_NS);
        u64::from(self.kind) | delta_ns << 6 | self.a << 30
    }
}

/// `bits` bits of `value` from bit `at` upwards.
#[inline(always)]
pub(crate) const fn bits(value: u64, at: u32, bits: u32) -> u64 {
    (value >> at) & ((1 << bits) - 1)
}

/// `bits` bits of `value` from bit `at` upwards, as a two's complement number.
#[inline(always)]
pub(crate) const fn signed(value: u64, at: u32, bits: u32) -> i64 {
    ((value << (64 - at - bits)) as i64) >> (64 - bits)
}

/// Code of "preempted": runnable, but switched out (`TASK_REPORT_MAX` in the tracepoint).
const PREEMPTED: u64 = 15;

/// The 4-bit code of a `prev_state`, and whether it says all of it.
pub(crate) fn state_code(state: PrevState) -> (u64, bool) {
    let code = match state.letter() {
        'R' if state.0 == 0 => 0,
        'R' => PREEMPTED,
        'S' => 1,
        'D' => 2,
        'T' => 3,
        't' => 4,
        'X' => 5,
        'Z' => 6,
        'P' => 7,
        _ => 8,
    };
    (code, state_of(code) == state)
}

/// The `prev_state` of a code. Codes without a meaning count as preempted: the thread is not
/// asleep in any way this version knows.
#[inline(always)]
pub(crate) fn state_of(code: u64) -> PrevState {
    PrevState(match code {
        0 => 0,
        1..=8 => 1 << (code - 1),
        _ => 0x100,
    })
}

/// Priorities are −1 (deadline) to 139; 255 stands for −1.
pub(crate) fn prio_code(prio: i32) -> (u64, bool) {
    let code = match prio {
        -1 => 255,
        0..=254 => prio as u64,
        _ => 254,
    };
    (code, prio_of(code) == prio)
}

#[inline(always)]
pub(crate) fn prio_of(code: u64) -> i32 {
    if code == 255 { -1 } else { code as i32 }
}

pub(crate) fn access_code(access: Access) -> u64 {
    match access {
        Access::Read => 0,
        Access::Write => 1,
        Access::UnsatisfiedRead => 2,
    }
}

#[inline(always)]
pub(crate) fn access_of(code: u64) -> Access {
    match code {
        0 => Access::Read,
        1 => Access::Write,
        _ => Access::UnsatisfiedRead,
    }
}

pub(crate) fn context_code(context: Context) -> u64 {
    match context {
        Context::Task => 0,
        Context::Softirq => 1,
        Context::Irq => 2,
        Context::Nmi => 3,
    }
}

#[inline(always)]
pub(crate) fn context_of(code: u64) -> Context {
    match code {
        0 => Context::Task,
        1 => Context::Softirq,
        2 => Context::Irq,
        _ => Context::Nmi,
    }
}

/// The 4-bit code of a source: its place among [`VectorSource::ALL`], 15 for one without a name.
pub(crate) fn source_code(source: VectorSource) -> u64 {
    match source {
        VectorSource::Other => 15,
        source => source as u64,
    }
}

#[inline(always)]
pub(crate) fn source_of(code: u64) -> VectorSource {
    VectorSource::ALL.get(code as usize).copied().unwrap_or(VectorSource::Other)
}

/// `REQ_OP_*` of include/linux/blk_types.h, unchanged since 4.10; 255 for what has no number here.
pub(crate) fn op_code(op: BlockOp) -> u64 {
    match op {
        BlockOp::Read => 0,
        BlockOp::Write => 1,
        BlockOp::Flush => 2,
        BlockOp::Discard => 3,
        BlockOp::Other => 255,
    }
}

#[inline(always)]
pub(crate) fn op_of(code: u64) -> BlockOp {
    match code {
        0 => BlockOp::Read,
        1 => BlockOp::Write,
        2 => BlockOp::Flush,
        3 => BlockOp::Discard,
        _ => BlockOp::Other,
    }
}

/// Kernel addresses are kept in 56 bits; the top byte is a copy of bit 55 (canonical addresses).
pub(crate) const ADDRESS_BITS: u32 = 56;

/// The word of the file header for who numbers exit reasons.
pub(crate) fn isa_word(isa: Isa) -> &'static str {
    match isa {
        Isa::Vmx => "vmx",
        Isa::Svm => "svm",
        Isa::Arm64 | Isa::Arm64Ret => "arm64",
        Isa::XenHypercall | Isa::XenTrap | Isa::Other(_) => "other",
    }
}

/// The numbering a file header's word stands for.
pub(crate) fn isa_of(word: &str) -> Isa {
    match word {
        "vmx" => Isa::Vmx,
        "svm" => Isa::Svm,
        "arm64" => Isa::Arm64,
        _ => Isa::Other(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_survive() {
        for state in [0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100] {
            let (code, exact) = state_code(PrevState(state));
            assert!(exact && code < 16, "{state:#x}");
            assert_eq!(state_of(code), PrevState(state));
        }
        assert_eq!(state_code(PrevState(0x102)), (2, false));
        assert_eq!(state_code(PrevState(0x400)), (PREEMPTED, false));
    }

    #[test]
    fn priorities_survive() {
        for prio in -1..=254 {
            assert_eq!(prio_of(prio_code(prio).0), prio);
        }
        assert_eq!(prio_code(PRIO_UNKNOWN), (254, false));
    }

    #[test]
    fn contexts_and_sources_survive() {
        for code in 0..4 {
            assert_eq!(context_code(context_of(code)), code);
        }
        for source in VectorSource::ALL {
            assert_eq!(source_of(source_code(source)), source);
            assert!(source_code(source) < 16);
        }
    }

    #[test]
    fn bit_fields() {
        assert_eq!(bits(0xabcd, 4, 8), 0xbc);
        assert_eq!(signed(0x3f << 2, 2, 6), -1);
        assert_eq!(signed(0x1f << 2, 2, 6), 31);
        assert_eq!(signed(u64::MAX, 0, 64), -1);
    }
}
