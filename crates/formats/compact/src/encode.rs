//! From core events to records: the smallest kind that holds an event.
//!
//! Shared by [`crate::LogWriter`] and tests; the BPF programs do the same in C.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bit fields: every narrowing here is the format's own, and masked or checked before"
)]

use crate::{
    exits::{Exits, ToldExit},
    kind::*,
    other::{self, Packed},
    record::{
        ADDRESS_BITS, REASON_INVALID, Raw, VCPU_UNKNOWN, VCPU_UNKNOWN_INJ, VCPU_UNKNOWN_S,
        access_code, context_code, op_code, prio_code, source_code, state_code,
    },
};
use transect_model::{
    event::{BlockRequest, Comm, CoreEvent, DeviceName, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
};

/// An event as one record, with what goes before or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) raw: Raw,
    /// A MORE record that must follow in the same chunk.
    pub(crate) more: Option<Raw>,
    /// A value did not fit and was replaced by the nearest that does.
    pub(crate) saturated: bool,
}

impl Encoded {
    pub(crate) fn words(&self) -> usize {
        self.raw.words() + self.more.map_or(0, |more| more.words())
    }
}

/// Packs fields into words and notices what does not fit.
#[derive(Default)]
struct Packer {
    saturated: bool,
}

impl Packer {
    /// `value` if it has at most `bits` bits, else the largest that has.
    fn fit(&mut self, value: u64, bits: u32) -> u64 {
        if value >> bits == 0 {
            return value;
        }
        self.saturated = true;
        (1 << bits) - 1
    }

    fn exact(&mut self, (code, exact): (u64, bool)) -> u64 {
        self.saturated |= !exact;
        code
    }

    fn tid(&mut self, tid: Tid) -> u64 {
        self.fit(u64::from(tid.0 as u32), 22)
    }

    fn vcpu(&mut self, vcpu: Option<VcpuId>) -> u64 {
        match vcpu {
            None => VCPU_UNKNOWN,
            Some(vcpu) if u64::from(vcpu.0) >= VCPU_UNKNOWN => {
                self.saturated = true;
                VCPU_UNKNOWN
            }
            Some(vcpu) => u64::from(vcpu.0),
        }
    }

    fn done(self, raw: Raw) -> Option<Encoded> {
        Some(Encoded { raw, more: None, saturated: self.saturated })
    }
}

/// The record of one event by itself; `None` if the format has none for it.
///
/// `current` is who runs, for a switch away from somebody else; `device` gives the number of a
/// network device.
pub(crate) fn single(
    event: &CoreEvent,
    current: Tid,
    device: impl FnOnce(DeviceName) -> u64,
) -> Option<Encoded> {
    let mut p = Packer::default();
    let raw = match *event {
        CoreEvent::SchedSwitch { prev, prev_prio, prev_state, next, next_prio, .. } => {
            let a = switch(&mut p, prev_state, next, next_prio);
            if prev == current {
                Raw::new(SWITCH, a, 0, 0)
            } else {
                let w1 = u64::from(prev.0 as u32) | u64::from(prev_prio as u32) << 32;
                Raw::new(SWITCH_FROM, a, w1, 0)
            }
        }
        CoreEvent::SchedWaking { tid, target_cpu, context, .. } => {
            waking(&mut p, tid, target_cpu, context)
        }
        CoreEvent::SchedWakeupNew { tid, target_cpu, .. } => {
            let a = p.tid(tid) | p.fit(u64::from(target_cpu.0), 12) << 22;
            Raw::new(WAKEUP_NEW, a, 0, 0)
        }
        CoreEvent::SchedMigrate { tid, orig_cpu, dest_cpu } => {
            let a = p.tid(tid) | p.fit(u64::from(dest_cpu.0), 12) << 22;
            Raw::new(MIGRATE, a, u64::from(orig_cpu.0), 0)
        }
        CoreEvent::SchedFork { parent, child, child_pid, .. } => {
            let a = p.tid(child);
            let pid = child_pid.map_or(0, |pid| pid.0 as u32);
            Raw::new(FORK, a, u64::from(parent.0 as u32) << 32 | u64::from(pid), 0)
        }
        CoreEvent::SchedExec { tid, old_tid } => {
            let a = p.tid(tid);
            Raw::new(EXEC, a, u64::from(old_tid.0 as u32), 0)
        }
        CoreEvent::SchedExit { tid, .. } => Raw::new(EXIT, p.tid(tid), 0, 0),
        CoreEvent::TaskRename { tid, new_comm } => {
            let a = p.tid(tid);
            name(NAME, a, new_comm)
        }
        CoreEvent::KvmEntry { vcpu, .. } => Raw::new(KVM_ENTRY, p.vcpu(vcpu), 0, 0),
        CoreEvent::KvmExit { vcpu, reason, rip, info1, .. } => {
            kvm_exit(&mut p, vcpu, reason, rip, info1)
        }
        CoreEvent::KvmHypercall { nr, args } => return hypercall(nr, args),
        CoreEvent::KvmUserspaceExit { reason, errno } => {
            let a = p.fit(u64::from(reason), 16) | clamped(&mut p, errno, 16) << 16;
            Raw::new(KVM_USERSPACE_EXIT, a, 0, 0)
        }
        CoreEvent::KvmHaltPollNs { vcpu, new_ns, old_ns } => {
            let a = p.vcpu(Some(vcpu));
            Raw::new(KVM_HALT_POLL, a, u64::from(new_ns) | u64::from(old_ns) << 32, 0)
        }
        CoreEvent::KvmVcpuWakeup { ns, waited, valid } => {
            let a = p.fit(ns, 32) | u64::from(waited) << 32 | u64::from(valid) << 33;
            Raw::new(KVM_VCPU_WAKEUP, a, 0, 0)
        }
        CoreEvent::KvmPio { access, port, size, count, value: None } => {
            let size = size_log2(&mut p, size);
            let a = access_code(access)
                | size << 2
                | p.fit(u64::from(port), 16) << 4
                | p.fit(u64::from(count), 14) << 20;
            Raw::new(KVM_PIO, a, 0, 0)
        }
        CoreEvent::KvmMmio { access, gpa, len, value: None } => {
            Raw::new(KVM_MMIO, access_code(access) | p.fit(u64::from(len), 8) << 2, gpa, 0)
        }
        CoreEvent::KvmFastMmio { gpa } => Raw::new(KVM_FAST_MMIO, 0, gpa, 0),
        CoreEvent::KvmPageFault { gpa, error_code } if error_code >> 34 == 0 => {
            Raw::new(KVM_PAGE_FAULT, error_code, gpa, 0)
        }
        CoreEvent::KvmPageFault { gpa, error_code } => {
            Raw::new(KVM_PAGE_FAULT_L, 0, gpa, error_code)
        }
        CoreEvent::KvmSetIrq { gsi, level } => {
            p.saturated |= !(0..=1).contains(&level);
            Raw::new(KVM_SET_IRQ, u64::from(gsi) | u64::from(level != 0) << 32, 0, 0)
        }
        CoreEvent::KvmMsi { address, data } => Raw::new(KVM_MSI, 0, address, data),
        CoreEvent::KvmAccept { vcpu, vector, mode, hardware, .. } => {
            let a = p.fit(u64::from(vector), 8)
                | p.fit(u64::from(vcpu.0), 16) << 8
                | p.fit(u64::from(mode), 3) << 24
                | u64::from(hardware) << 27;
            Raw::new(KVM_ACCEPT, a, 0, 0)
        }
        CoreEvent::KvmInjVirq { vector, reinjected: false } => {
            Raw::new(KVM_INJ_VIRQ, u64::from(vector), 0, 0)
        }
        CoreEvent::KvmWriteTscOffset { vcpu, previous, next } => {
            Raw::new(KVM_TSC_OFFSET, p.vcpu(Some(vcpu)), previous, next)
        }
        CoreEvent::IrqEntry { irq, .. } => Raw::new(IRQ_ENTRY, u64::from(irq as u32), 0, 0),
        CoreEvent::IrqExit { irq, handled } => {
            Raw::new(IRQ_EXIT, u64::from(irq as u32) | u64::from(handled) << 32, 0, 0)
        }
        CoreEvent::SoftirqRaise { vector, .. } => {
            Raw::new(SOFTIRQ_RAISE, p.fit(u64::from(vector), 4), 0, 0)
        }
        CoreEvent::SoftirqEntry { vector } => {
            Raw::new(SOFTIRQ_ENTRY, p.fit(u64::from(vector), 4), 0, 0)
        }
        CoreEvent::SoftirqExit { vector } => {
            Raw::new(SOFTIRQ_EXIT, p.fit(u64::from(vector), 4), 0, 0)
        }
        CoreEvent::VectorEntry { source, vector } => {
            Raw::new(VECTOR_ENTRY, vectored(&mut p, source, vector), 0, 0)
        }
        CoreEvent::VectorExit { source, vector } => {
            Raw::new(VECTOR_EXIT, vectored(&mut p, source, vector), 0, 0)
        }
        CoreEvent::SyscallEnter { nr } => {
            Raw::new(SYS_ENTER, u64::from(syscall_nr(&mut p, nr)), 0, 0)
        }
        CoreEvent::SyscallExit { nr, ret } => {
            let nr = syscall_nr(&mut p, nr);
            match twos_complement(ret, 24) {
                Some(short) if nr < 1 << 10 => {
                    Raw::new(SYS_EXIT_S, u64::from(nr) | short << 10, 0, 0)
                }
                _ => Raw::new(SYS_EXIT, u64::from(nr), ret as u64, 0),
            }
        }
        CoreEvent::BlockInsert(request @ BlockRequest { id: None, .. }) => {
            block(&mut p, BLOCK_INSERT, request, 0)
        }
        CoreEvent::BlockIssue(request @ BlockRequest { id: None, .. }) => {
            block(&mut p, BLOCK_ISSUE, request, 0)
        }
        CoreEvent::BlockComplete { request: request @ BlockRequest { id: None, .. }, error } => {
            block(&mut p, BLOCK_COMPLETE, request, error)
        }
        CoreEvent::NetXmit { skb, bytes, device: name, code } => {
            let a = p.fit(u64::from(bytes), 20) | device(name) << 20;
            let w1 = address(&mut p, skb) | clamped(&mut p, code, 8) << ADDRESS_BITS;
            Raw::new(NET_XMIT, a, w1, 0)
        }
        CoreEvent::NetReceive { skb, bytes, device: name } => {
            let a = p.fit(u64::from(bytes), 20) | device(name) << 20;
            Raw::new(NET_RECEIVE, a, address(&mut p, skb), 0)
        }
        CoreEvent::WorkStart { work, function } => Raw::new(WORK_START, 0, work, function),
        CoreEvent::WorkEnd { work, function } => Raw::new(WORK_END, 0, work, function),
        // sched_wakeup tells nothing that sched_waking and the switch do not; and what comes to
        // the model later has no kind yet.
        ref event => {
            let Packed { a, words, saturated } = other::pack(event)?;
            p.saturated |= saturated;
            Raw::new(OTHER, a, words[0], words[1])
        }
    };
    p.done(raw)
}

/// The NAME or DEVICE_NAME record of a name.
pub(crate) fn name(kind: u8, a: u64, name: Comm) -> Raw {
    let (low, high) = name.0.split_at(8);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Raw::new(kind, a, word(low), word(high))
}

fn switch(p: &mut Packer, prev_state: PrevState, next: Tid, next_prio: i32) -> u64 {
    p.tid(next) | p.exact(state_code(prev_state)) << 22 | p.exact(prio_code(next_prio)) << 26
}

/// With the context where it is told and the CPU's number leaves room for it.
fn waking(p: &mut Packer, tid: Tid, target: CpuId, context: Option<Context>) -> Raw {
    let tid = p.tid(tid);
    match context {
        Some(context) if target.0 < 1 << 10 => {
            let a = tid | u64::from(target.0) << 22 | context_code(context) << 32;
            Raw::new(WAKING_IN, a, 0, 0)
        }
        context => {
            p.saturated |= context.is_some();
            Raw::new(WAKING, tid | p.fit(u64::from(target.0), 12) << 22, 0, 0)
        }
    }
}

fn vectored(p: &mut Packer, source: VectorSource, vector: u32) -> u64 {
    p.fit(u64::from(vector), 8) | source_code(source) << 8
}

fn kvm_exit(p: &mut Packer, vcpu: Option<VcpuId>, reason: ExitReason, rip: u64, info1: u64) -> Raw {
    let short = reason.code < 1 << 12 && info1 < 1 << 10 && reason.isa != Isa::Arm64Ret;
    if let Some(vcpu) = short_vcpu(vcpu).filter(|_| short) {
        let a = u64::from(reason.code) | vcpu << 12 | info1 << 24;
        return Raw::new(KVM_EXIT_S, a, rip, 0);
    }
    let (code, high) = match reason.code {
        u32::MAX => (REASON_INVALID, 0),
        code => {
            let middle = u64::from(code >> 16 & 0x7fff);
            p.saturated |= middle != 0 || code & 0xffff == 0xffff;
            (u64::from(code & 0xffff), u64::from(code >> 31))
        }
    };
    let other = u64::from(reason.isa == Isa::Arm64Ret);
    Raw::new(KVM_EXIT, code | p.vcpu(vcpu) << 16 | high << 32 | other << 33, rip, info1)
}

/// A vCPU's 12 bits, `None` if it needs more.
fn short_vcpu(vcpu: Option<VcpuId>) -> Option<u64> {
    match vcpu {
        None => Some(VCPU_UNKNOWN_S),
        Some(vcpu) => Some(u64::from(vcpu.0)).filter(|vcpu| *vcpu < VCPU_UNKNOWN_S),
    }
}

fn hypercall(nr: u64, args: [u64; 4]) -> Option<Encoded> {
    let low = nr & ((1 << 34) - 1);
    if args == [0; 4] && low == nr {
        return Packer::default().done(Raw::new(KVM_HYPERCALL, nr, 0, 0));
    }
    let more = Raw::new(MORE, nr >> 34, args[2], args[3]);
    let needed = args[2] != 0 || args[3] != 0 || low != nr;
    Some(Encoded {
        raw: Raw::new(KVM_HYPERCALL_A, low, args[0], args[1]),
        more: needed.then_some(more),
        saturated: false,
    })
}

fn block(p: &mut Packer, kind: u8, request: BlockRequest, error: i32) -> Raw {
    let a = p.fit(u64::from(request.sectors), 24) | op_code(request.op) << 24;
    let w2 = u64::from(request.device) | u64::from(error as u32) << 32;
    Raw::new(kind, a, request.sector, w2)
}

fn address(p: &mut Packer, address: u64) -> u64 {
    let low = address & ((1 << ADDRESS_BITS) - 1);
    p.saturated |= crate::record::signed(low, 0, ADDRESS_BITS) as u64 != address;
    low
}

fn size_log2(p: &mut Packer, size: u32) -> u64 {
    p.saturated |= !matches!(size, 1 | 2 | 4 | 8);
    u64::from(size.max(1).ilog2()).min(3)
}

/// System call numbers are 32 bits wide where the kernel keeps them; −1 is "none".
fn syscall_nr(p: &mut Packer, nr: i64) -> u32 {
    p.saturated |= i32::try_from(nr).is_err();
    nr as u32
}

/// `value` in `bits` bits of two's complement, `None` if it needs more.
fn twos_complement(value: i64, bits: u32) -> Option<u64> {
    let limit = 1_i64 << (bits - 1);
    (-limit..limit).contains(&value).then_some(value as u64 & ((1 << bits) - 1))
}

/// The same for what is brought to the nearest value that fits.
fn clamped(p: &mut Packer, value: i32, bits: u32) -> u64 {
    let limit = 1_i64 << (bits - 1);
    let near = i64::from(value).clamp(-limit, limit - 1);
    p.saturated |= near != i64::from(value);
    near as u64 & ((1 << bits) - 1)
}

/// The record for a BEGIN and its END `dur_ns` later; `None` if they do not belong together or do
/// not fit one record. `rip_high`: the high half of the last full rip in this chunk.
pub(crate) fn folded(
    begin: &CoreEvent,
    end: &CoreEvent,
    dur_ns: u64,
    rip_high: Option<u32>,
) -> Option<Raw> {
    match (*begin, *end) {
        (
            CoreEvent::KvmExit { vcpu, reason, rip, info1, .. },
            CoreEvent::KvmEntry { vcpu: entered, .. },
        ) => {
            let dur = u64::from(u32::try_from(dur_ns).ok()?);
            let info1 = u64::from(u32::try_from(info1).ok()?);
            let fits = reason.code < 1 << 12 && reason.isa != Isa::Arm64Ret && vcpu == entered;
            let vcpu = short_vcpu(vcpu).filter(|_| fits)?;
            let a = u64::from(reason.code) | vcpu << 12;
            if info1 < 1 << 10 && rip_high == Some((rip >> 32) as u32) {
                let w1 = dur | rip << 32;
                return Some(Raw::new(KVM_EXIT_ENTRY_S, a | info1 << 24, w1, 0));
            }
            Some(Raw::new(KVM_EXIT_ENTRY, a, rip, dur | info1 << 32))
        }
        (CoreEvent::IrqEntry { irq, .. }, CoreEvent::IrqExit { irq: left, handled }) => {
            let fits = irq == left && (0..1 << 13).contains(&irq) && dur_ns < 1 << 20;
            let a = irq as u64 | u64::from(handled) << 13 | dur_ns << 14;
            fits.then(|| Raw::new(IRQ, a, 0, 0))
        }
        (CoreEvent::SoftirqEntry { vector }, CoreEvent::SoftirqExit { vector: left }) => {
            let fits = vector == left && vector < 1 << 4 && dur_ns < 1 << 30;
            fits.then(|| Raw::new(SOFTIRQ, u64::from(vector) | dur_ns << 4, 0, 0))
        }
        (
            CoreEvent::VectorEntry { source, vector },
            CoreEvent::VectorExit { source: left_source, vector: left },
        ) => {
            let same = source == left_source && vector == left;
            let fits = same && vector < 1 << 8 && dur_ns < 1 << 22;
            let a = u64::from(vector) | source_code(source) << 8 | dur_ns << 12;
            fits.then(|| Raw::new(VECTOR, a, 0, 0))
        }
        (CoreEvent::KvmInjVirq { vector, reinjected: false }, CoreEvent::KvmEntry { vcpu, .. }) => {
            let vcpu = match vcpu {
                None => VCPU_UNKNOWN_INJ,
                Some(vcpu) => Some(u64::from(vcpu.0)).filter(|vcpu| *vcpu < VCPU_UNKNOWN_INJ)?,
            };
            let fits = vector < 1 << 8 && dur_ns < 1 << 18;
            let a = u64::from(vector) | vcpu << 8 | dur_ns << 16;
            fits.then(|| Raw::new(KVM_INJ_ENTRY, a, 0, 0))
        }
        (CoreEvent::SyscallEnter { nr }, CoreEvent::SyscallExit { nr: left, ret }) => {
            let same = nr == left && (0..1 << 10).contains(&nr);
            if !same || dur_ns >= 1 << 24 {
                return None;
            }
            let nr = nr as u64;
            if nr < 1 << 9 && dur_ns < 1 << 15 && (-64..=959).contains(&ret) {
                let a = nr | dur_ns << 9 | ((ret + 64) as u64) << 24;
                return Some(Raw::new(SYSCALL_S, a, 0, 0));
            }
            Some(Raw::new(SYSCALL, nr | dur_ns << 10, ret as u64, 0))
        }
        _ => None,
    }
}

/// The VM exit that a record tells, if it is of those that take a slot. The rip is the event's: a
/// short record has half of it.
pub(crate) fn told(raw: &Raw, rip: u64) -> Option<ToldExit> {
    match raw.kind {
        KVM_EXIT => ToldExit::of_long(raw.a, rip, raw.rest[1]),
        KVM_EXIT_S | KVM_EXIT_ENTRY_S => Some(ToldExit::of_short(raw.a, rip)),
        KVM_EXIT_ENTRY => Some(ToldExit::of_folded(raw.a, rip, raw.rest[1] >> 32)),
        _ => None,
    }
}

/// The record of one word for a VM exit that the chunk has told before.
pub(crate) fn again(raw: &Raw, exit: ToldExit, exits: &Exits) -> Option<Raw> {
    let slot = exits.find(exit)?;
    let dur_ns = match raw.kind {
        KVM_EXIT | KVM_EXIT_S => return Some(Raw::new(KVM_EXIT_R, slot, 0, 0)),
        KVM_EXIT_ENTRY => raw.rest[1] & 0xffff_ffff,
        _ => raw.rest[0] & 0xffff_ffff,
    };
    (dur_ns < 1 << 30).then(|| Raw::new(KVM_EXIT_ENTRY_R, slot | dur_ns << 4, 0, 0))
}

/// Does this event open an interval that may be folded?
pub(crate) fn is_begin(event: &CoreEvent) -> bool {
    matches!(
        event,
        CoreEvent::KvmExit { .. }
            | CoreEvent::KvmInjVirq { reinjected: false, .. }
            | CoreEvent::IrqEntry { .. }
            | CoreEvent::SoftirqEntry { .. }
            | CoreEvent::VectorEntry { .. }
            | CoreEvent::SyscallEnter { .. }
    )
}
