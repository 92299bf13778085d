//! Events that came when the numbers of kinds had nearly run out: one kind, OTHER, tells them apart by
//! `what`. They are no intervals, and seldom or large: three words are no loss.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "bit fields: every narrowing here takes exactly the bits the format gives"
)]

use crate::record::{access_code, access_of, bits, op_code, op_of, signed};
use transect_model::{
    event::{BlockOp, BlockRequest, CoreEvent},
    ids::{CpuId, Tid},
    stack::StackPoint,
};

/// Bits of `what`.
const WHAT_BITS: u32 = 5;
/// `op` of a request whose operation has no number here.
const OP_OTHER: u64 = 7;

/// The layouts by `what`: a name, the fields of `x` from its bit 0 upwards, and the words after.
pub const WHATS: &[(&str, &str)] = &[
    ("BLOCK_INSERT", "sectors:24 op:3 | w1 sector:64 | w2 dev:32 0:8 id:24"),
    ("BLOCK_ISSUE", "sectors:24 op:3 | w1 sector:64 | w2 dev:32 0:8 id:24"),
    ("BLOCK_COMPLETE", "sectors:24 op:3 | w1 sector:64 | w2 dev:32 error:8 id:24"),
    ("KVM_MMIO", "access:2 len:8 | w1 gpa:64 | w2 value:64"),
    ("KVM_PIO", "access:2 size_log2:2 port:16 | w1 count:32 0:32 | w2 value:64"),
    ("KVM_INJ_VIRQ", "0 | w1 vector:32 0:32 | w2 0:64 (injected again)"),
    ("NET_PACKET", "sent:1 | w1 skb:64 | w2 flow:32 seq:32"),
    ("WORK_QUEUE", "0 | w1 work:64 | w2 function:64"),
    ("LOCK_BEGIN", "flags:29 | w1 lock:64 | w2 owner:32 0:32"),
    ("LOCK_END", "0 | w1 lock:64 | w2 ret:32 0:32"),
    ("THROTTLE", "cpu:12 | w1 cgroup:64 | w2 0:64"),
    ("UNTHROTTLE", "cpu:12 | w1 cgroup:64 | w2 0:64"),
    ("RECLAIM_BEGIN", "memcg:1 | w1 order:32 0:32 | w2 0:64"),
    ("RECLAIM_END", "memcg:1 | w1 pages:64 | w2 0:64"),
    ("STACK", "point:3 woken:22 | w1 kernel:32 user:32 | w2 0:64"),
];

const BLOCK_INSERT: u64 = 0;
const BLOCK_ISSUE: u64 = 1;
const BLOCK_COMPLETE: u64 = 2;
const KVM_MMIO: u64 = 3;
const KVM_PIO: u64 = 4;
const KVM_INJ_VIRQ: u64 = 5;
const NET_PACKET: u64 = 6;
const WORK_QUEUE: u64 = 7;
const LOCK_BEGIN: u64 = 8;
const LOCK_END: u64 = 9;
const THROTTLE: u64 = 10;
const UNTHROTTLE: u64 = 11;
const RECLAIM_BEGIN: u64 = 12;
const RECLAIM_END: u64 = 13;
const STACK: u64 = 14;
/// No stack, or one that was not kept.
const NO_STACK: u32 = u32::MAX;

/// What an OTHER record of an event holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed {
    pub(crate) a: u64,
    pub(crate) words: [u64; 2],
    /// A value did not fit and was replaced by the nearest that does.
    pub(crate) saturated: bool,
}

/// The event as OTHER; `None` if it is not one of these.
pub(crate) fn pack(event: &CoreEvent) -> Option<Packed> {
    let mut saturated = false;
    let (what, x, w1, w2) = match *event {
        CoreEvent::BlockInsert(request) => block(BLOCK_INSERT, request, 0, &mut saturated)?,
        CoreEvent::BlockIssue(request) => block(BLOCK_ISSUE, request, 0, &mut saturated)?,
        CoreEvent::BlockComplete { request, error } => {
            block(BLOCK_COMPLETE, request, error, &mut saturated)?
        }
        CoreEvent::KvmMmio { access, gpa, len, value: Some(value) } => {
            let len = fit(u64::from(len), 8, &mut saturated);
            (KVM_MMIO, access_code(access) | len << 2, gpa, value)
        }
        CoreEvent::KvmPio { access, port, size, count, value: Some(value) } => {
            saturated |= !matches!(size, 1 | 2 | 4 | 8);
            let size = u64::from(size.max(1).ilog2()).min(3);
            let port = fit(u64::from(port), 16, &mut saturated);
            (KVM_PIO, access_code(access) | size << 2 | port << 4, count.into(), value)
        }
        CoreEvent::KvmInjVirq { vector, reinjected: true } => (KVM_INJ_VIRQ, 0, vector.into(), 0),
        CoreEvent::NetPacket { skb, flow, seq, sent } => {
            (NET_PACKET, sent.into(), skb, u64::from(flow) | u64::from(seq) << 32)
        }
        CoreEvent::WorkQueue { work, function, .. } => (WORK_QUEUE, 0, work, function),
        CoreEvent::LockBegin { lock, flags, owner } => {
            let flags = fit(u64::from(flags), 29, &mut saturated);
            (LOCK_BEGIN, flags, lock, owner.map_or(0, |owner| u64::from(owner.0 as u32)))
        }
        CoreEvent::LockEnd { lock, ret } => (LOCK_END, 0, lock, u64::from(ret as u32)),
        CoreEvent::Throttle { cgroup, cpu } => {
            (THROTTLE, fit(u64::from(cpu.0), 12, &mut saturated), cgroup, 0)
        }
        CoreEvent::Unthrottle { cgroup, cpu } => {
            (UNTHROTTLE, fit(u64::from(cpu.0), 12, &mut saturated), cgroup, 0)
        }
        CoreEvent::ReclaimBegin { memcg, order } => {
            (RECLAIM_BEGIN, memcg.into(), u64::from(order as u32), 0)
        }
        CoreEvent::ReclaimEnd { memcg, pages } => (RECLAIM_END, memcg.into(), pages, 0),
        CoreEvent::Stack { point, kernel, user, woken } => {
            let number = |stack: Option<u32>| u64::from(stack.unwrap_or(NO_STACK));
            let woken = fit(woken.map_or(0, |tid| u64::from(tid.0 as u32)), 22, &mut saturated);
            (STACK, point as u64 | woken << 3, number(kernel) | number(user) << 32, 0)
        }
        _ => return None,
    };
    Some(Packed { a: what | x << WHAT_BITS, words: [w1, w2], saturated })
}

/// The event of an OTHER record; `None` for a `what` of a later version.
pub(crate) fn unpack(a: u64, w1: u64, w2: u64) -> Option<CoreEvent> {
    let x = a >> WHAT_BITS;
    Some(match bits(a, 0, WHAT_BITS) {
        BLOCK_INSERT => CoreEvent::BlockInsert(request(x, w1, w2)),
        BLOCK_ISSUE => CoreEvent::BlockIssue(request(x, w1, w2)),
        BLOCK_COMPLETE => CoreEvent::BlockComplete {
            request: request(x, w1, w2),
            error: signed(w2, 32, 8) as i32,
        },
        KVM_MMIO => CoreEvent::KvmMmio {
            access: access_of(bits(x, 0, 2)),
            gpa: w1,
            len: bits(x, 2, 8) as u32,
            value: Some(w2),
        },
        KVM_PIO => CoreEvent::KvmPio {
            access: access_of(bits(x, 0, 2)),
            port: bits(x, 4, 16) as u32,
            size: 1 << bits(x, 2, 2),
            count: w1 as u32,
            value: Some(w2),
        },
        KVM_INJ_VIRQ => CoreEvent::KvmInjVirq { vector: w1 as u32, reinjected: true },
        NET_PACKET => CoreEvent::NetPacket {
            skb: w1,
            flow: w2 as u32,
            seq: (w2 >> 32) as u32,
            sent: bits(x, 0, 1) != 0,
        },
        WORK_QUEUE => CoreEvent::WorkQueue { work: w1, function: w2, context: None },
        LOCK_BEGIN => CoreEvent::LockBegin {
            lock: w1,
            flags: bits(x, 0, 29) as u32,
            owner: Some(Tid(w2 as u32 as i32)).filter(|owner| owner.0 != 0),
        },
        LOCK_END => CoreEvent::LockEnd { lock: w1, ret: w2 as u32 as i32 },
        THROTTLE => CoreEvent::Throttle { cgroup: w1, cpu: CpuId(bits(x, 0, 12) as u32) },
        UNTHROTTLE => CoreEvent::Unthrottle { cgroup: w1, cpu: CpuId(bits(x, 0, 12) as u32) },
        RECLAIM_BEGIN => {
            CoreEvent::ReclaimBegin { memcg: bits(x, 0, 1) != 0, order: w1 as u32 as i32 }
        }
        RECLAIM_END => CoreEvent::ReclaimEnd { memcg: bits(x, 0, 1) != 0, pages: w1 },
        STACK => CoreEvent::Stack {
            point: *StackPoint::ALL.get(bits(x, 0, 3) as usize)?,
            kernel: Some(w1 as u32).filter(|stack| *stack != NO_STACK),
            user: Some((w1 >> 32) as u32).filter(|stack| *stack != NO_STACK),
            woken: Some(Tid(bits(x, 3, 22) as i32)).filter(|woken| woken.0 != 0),
        },
        _ => return None,
    })
}

/// A request with an id; those without have kinds of their own.
fn block(
    what: u64,
    request: BlockRequest,
    error: i32,
    saturated: &mut bool,
) -> Option<(u64, u64, u64, u64)> {
    let id = fit(u64::from(request.id?), 24, saturated);
    let near = error.clamp(-128, 127);
    *saturated |= near != error;
    let op = match request.op {
        BlockOp::Other => OP_OTHER,
        op => op_code(op),
    };
    let x = fit(u64::from(request.sectors), 24, saturated) | op << 24;
    let w2 = u64::from(request.device) | u64::from(near as u8) << 32 | id << 40;
    Some((what, x, request.sector, w2))
}

fn request(x: u64, sector: u64, w2: u64) -> BlockRequest {
    BlockRequest {
        device: w2 as u32,
        sector,
        sectors: bits(x, 0, 24) as u32,
        op: op_of(bits(x, 24, 3)),
        id: Some(bits(w2, 40, 24) as u32),
    }
}

/// `value` if it has at most `bits` bits, else the largest that has.
fn fit(value: u64, bits: u32, saturated: &mut bool) -> u64 {
    if value >> bits == 0 {
        return value;
    }
    *saturated = true;
    (1 << bits) - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::A_BITS;

    #[test]
    fn layouts_fit_their_words() {
        for (name, fields) in WHATS {
            let parts: Vec<&str> = fields.split(" | ").collect();
            let bits = |part: &str| -> u32 {
                let sizes = part.split_whitespace().filter_map(|word| word.split_once(':'));
                sizes.filter_map(|(_, bits)| bits.parse::<u32>().ok()).sum()
            };
            assert!(bits(parts[0]) <= A_BITS - WHAT_BITS, "{name}");
            assert!(parts[1..].iter().all(|part| bits(part) == 64), "{name}");
            assert_eq!(parts.len(), 3, "{name}");
        }
    }

    #[test]
    fn every_what_is_unpacked_and_no_other() {
        for what in 0..1 << WHAT_BITS {
            let known = (what as usize) < WHATS.len();
            assert_eq!(unpack(what, 1, 2).is_some(), known, "{what}");
        }
    }
}
