//! Every field at the value that just fits and at the one that just does not: which kind is
//! written, how many words it has, whether a value was cut, and what is read again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common;
use crate::common::*;
use std::convert::Infallible;
use transect_compact::{
    Carried::{self, Saturated, Whole},
    LogWriter, Slice,
    kind::*,
};
use transect_model::{
    event::{Access, BlockOp, BlockRequest, Comm, CoreEvent, PrevState},
    exit::{ExitReason, Isa},
    ids::{CpuId, Tid, VcpuId},
    interrupt::{Context, VectorSource},
};

const TID: Tid = Tid(3);
const BEGIN_NS: u64 = 5_000;

/// Kinds of the records these events become (without SYNC, TIME and CURRENT), and what the writer
/// said of the last.
fn kinds_of(events: &[Stamped]) -> (Vec<u8>, Carried) {
    let mut words = Vec::new();
    let mut out = |slice: Slice<'_>| {
        words.extend_from_slice(slice.words);
        Ok::<(), Infallible>(())
    };
    let mut log = LogWriter::new(MAIN);
    let mut said = Whole;
    for (ts, tid, event) in events {
        said = log.event(*ts, *tid, event, &mut out).unwrap();
    }
    log.finish(&mut out).unwrap();
    let mut kinds = Vec::new();
    let mut at = 0;
    while at < words.len() {
        let kind = words[at] & 63;
        at += 8 * usize::from(WORDS[usize::from(kind)]);
        if ![SYNC, TIME, CURRENT, DEVICE_NAME].contains(&kind) {
            kinds.push(kind);
        }
    }
    (kinds, said)
}

/// One event by itself becomes a record of this kind, and is read as it was.
#[track_caller]
fn whole(event: CoreEvent, kind: u8) {
    let events = [(BEGIN_NS, TID, event)];
    assert_eq!(kinds_of(&events), (vec![kind], Whole), "{event:?}");
    let read = common::events(&read(&file_of(MAIN, &events)));
    assert_eq!(all_carried(&read), all_carried(&events));
}

/// One event with a value too large is written, cut and counted: it is read as `as_read`.
#[track_caller]
fn cut(event: CoreEvent, as_read: CoreEvent, kind: u8) {
    let events = [(BEGIN_NS, TID, event)];
    assert_eq!(kinds_of(&events), (vec![kind], Saturated), "{event:?}");
    let read = common::events(&read(&file_of(MAIN, &events)));
    assert_eq!(all_carried(&read), all_carried(&[(BEGIN_NS, TID, as_read)]));
}

/// Two events `dur_ns` apart become records of these kinds, and are read as they were.
#[track_caller]
fn pair(begin: CoreEvent, end: CoreEvent, dur_ns: u64, kinds: &[u8]) {
    let events = [(BEGIN_NS, TID, begin), (BEGIN_NS + dur_ns, TID, end)];
    assert_eq!(kinds_of(&events).0, kinds, "{begin:?} {end:?} {dur_ns}");
    let read = common::events(&read(&file_of(MAIN, &events)));
    assert_eq!(all_carried(&read), all_carried(&events));
}

fn exit(vcpu: u32, code: u32, info1: u64) -> CoreEvent {
    let reason = ExitReason { isa: Isa::Svm, code };
    CoreEvent::KvmExit { vcpu: Some(VcpuId(vcpu)), reason, rip: u64::MAX, info1, info2: 0 }
}

fn entry(vcpu: u32) -> CoreEvent {
    CoreEvent::KvmEntry { vcpu: Some(VcpuId(vcpu)), rip: None }
}

#[test]
fn deltas() {
    let raise = CoreEvent::SoftirqRaise { vector: 0, context: None };
    for (step, words) in [((1 << 24) - 1, 5), (1 << 24, 7)] {
        let mut log = LogWriter::new(MAIN);
        let mut out = |_: Slice<'_>| Ok::<(), Infallible>(());
        log.event(BEGIN_NS, TID, &raise, &mut out).unwrap();
        log.event(BEGIN_NS + step, TID, &raise, &mut out).unwrap();
        assert_eq!(log.position(), 8 * words, "{step}");
    }
}

#[test]
fn threads_and_cpus() {
    let waking = |tid, cpu, context| CoreEvent::SchedWaking {
        tid: Tid(tid),
        comm: Comm::default(),
        prio: 0,
        target_cpu: CpuId(cpu),
        context,
    };
    whole(waking((1 << 22) - 1, (1 << 12) - 1, None), WAKING);
    cut(waking(1 << 22, 0, None), waking((1 << 22) - 1, 0, None), WAKING);
    cut(waking(1, 1 << 12, None), waking(1, (1 << 12) - 1, None), WAKING);
    for context in [Context::Task, Context::Softirq, Context::Irq, Context::Nmi].map(Some) {
        whole(waking((1 << 22) - 1, (1 << 10) - 1, context), WAKING_IN);
        cut(waking(1 << 22, 0, context), waking((1 << 22) - 1, 0, context), WAKING_IN);
        // A CPU whose number needs the context's room.
        cut(waking(1, 1 << 10, context), waking(1, 1 << 10, None), WAKING);
    }
    let switch = |prio, state| CoreEvent::SchedSwitch {
        prev: TID,
        prev_comm: Comm::default(),
        prev_prio: 0,
        prev_state: PrevState(state),
        next: Tid(1),
        next_comm: Comm::default(),
        next_prio: prio,
    };
    whole(switch(-1, 0x100), SWITCH);
    whole(switch(254, 0x80), SWITCH);
    cut(switch(255, 0), switch(254, 0), SWITCH);
    cut(switch(0, 0x102), switch(0, 2), SWITCH);
}

#[test]
fn vm_exits() {
    whole(exit(0xffe, 0xfff, 0x3ff), KVM_EXIT_S);
    whole(exit(0xfff, 0, 0), KVM_EXIT);
    whole(exit(0, 0x1000, 0), KVM_EXIT);
    whole(exit(0, 0, 0x400), KVM_EXIT);
    whole(exit(0xfffe, 0xfffe, u64::MAX), KVM_EXIT);
    whole(exit(0, u32::MAX, 0), KVM_EXIT);
    whole(exit(0, 0x8000_fffe, 0), KVM_EXIT);
    cut(exit(0, 0x1_0001, 0), exit(0, 1, 0), KVM_EXIT);
    whole(entry(0xfffe), KVM_ENTRY);
    cut(entry(0xffff), CoreEvent::KvmEntry { vcpu: None, rip: None }, KVM_ENTRY);

    let most = u64::from(u32::MAX);
    pair(exit(0xffe, 0xfff, most), entry(0xffe), most, &[KVM_EXIT_ENTRY]);
    pair(exit(0xffe, 0xfff, 0), entry(0xffe), most + 1, &[KVM_EXIT_S, KVM_ENTRY]);
    pair(exit(1, 1, most + 1), entry(1), 1, &[KVM_EXIT, KVM_ENTRY]);
    pair(exit(1, 0x1000, 0), entry(1), 1, &[KVM_EXIT, KVM_ENTRY]);
    pair(exit(0xfff, 1, 0), entry(0xfff), 1, &[KVM_EXIT, KVM_ENTRY]);
    pair(exit(1, 1, 0), entry(2), 1, &[KVM_EXIT_S, KVM_ENTRY]);
}

/// The short interval goes by the last full rip of its chunk.
#[test]
fn short_vm_exits() {
    let (first, short, second) = (exit(1, 1, 0x3ff), exit(1, 2, 0x3ff), exit(1, 1, 0x400));
    let at = |n: u64, event| (BEGIN_NS + n, TID, event);
    let events = |last| [at(0, first), at(1, entry(1)), at(2, last), at(3, entry(1))];
    assert_eq!(kinds_of(&events(short)).0, [KVM_EXIT_ENTRY, KVM_EXIT_ENTRY_S]);
    assert_eq!(kinds_of(&events(second)).0, [KVM_EXIT_ENTRY, KVM_EXIT_ENTRY]);
    let elsewhere = CoreEvent::KvmExit {
        vcpu: Some(VcpuId(1)),
        reason: ExitReason { isa: Isa::Svm, code: 1 },
        rip: 0xffff_ffff,
        info1: 0,
        info2: 0,
    };
    assert_eq!(kinds_of(&events(elsewhere)).0, [KVM_EXIT_ENTRY, KVM_EXIT_ENTRY]);
}

/// What a chunk has told of an exit is not told again, whatever kind told it.
#[test]
fn repeated_vm_exits() {
    let again = |event, end_ns: u64, kinds: &[u8]| {
        let at = |n: u64, event| (BEGIN_NS + n, TID, event);
        // The first is folded with its entry, the second stands alone, the third is folded.
        let raise = CoreEvent::SoftirqRaise { vector: 1, context: None };
        let mut events = vec![at(0, event), at(1, entry(1)), at(2, event), at(3, raise)];
        events.extend([at(4, event), at(4 + end_ns, entry(1))]);
        assert_eq!(kinds_of(&events).0, kinds, "{event:?}");
        assert_eq!(common::events(&read(&file_of(MAIN, &events))), all_carried(&events));
    };
    let longest = (1 << 30) - 1;
    let all = [KVM_EXIT_ENTRY, KVM_EXIT_R, SOFTIRQ_RAISE, KVM_EXIT_ENTRY_R];
    again(exit(1, 0xfff, 0), longest, &all);
    again(exit(1, 0xfff, u64::from(u32::MAX)), longest, &all);
    // Too long for a slot's record: told in full again.
    let late = [KVM_EXIT_ENTRY, KVM_EXIT_R, SOFTIRQ_RAISE, KVM_EXIT_ENTRY_S];
    again(exit(1, 1, 0), longest + 1, &late);
    // No slot has room for these.
    let never = [KVM_EXIT, KVM_ENTRY, KVM_EXIT, SOFTIRQ_RAISE, KVM_EXIT, KVM_ENTRY];
    again(exit(1, 1, 1 << 32), 1, &never);
    again(exit(1, 0x1000, 0), 1, &never);
    again(exit(0xfff, 1, 0), 1, &never);
    again(exit(1, u32::MAX, 0), 1, &never);
}

#[test]
fn injections() {
    let inject = |vector| CoreEvent::KvmInjVirq { vector, reinjected: false };
    pair(inject(255), entry(254), (1 << 18) - 1, &[KVM_INJ_ENTRY]);
    pair(inject(0), CoreEvent::KvmEntry { vcpu: None, rip: None }, 0, &[KVM_INJ_ENTRY]);
    pair(inject(1), entry(1), 1 << 18, &[KVM_INJ_VIRQ, KVM_ENTRY]);
    pair(inject(256), entry(1), 1, &[KVM_INJ_VIRQ, KVM_ENTRY]);
    pair(inject(1), entry(255), 1, &[KVM_INJ_VIRQ, KVM_ENTRY]);
    pair(
        inject(1),
        CoreEvent::SoftirqRaise { vector: 1, context: None },
        1,
        &[KVM_INJ_VIRQ, SOFTIRQ_RAISE],
    );
    whole(inject(u32::MAX), KVM_INJ_VIRQ);
}

#[test]
fn other_vm_events() {
    let all = u64::MAX;
    whole(CoreEvent::KvmHypercall { nr: (1 << 34) - 1, args: [0; 4] }, KVM_HYPERCALL);
    whole(CoreEvent::KvmHypercall { nr: 0, args: [all, all, 0, 0] }, KVM_HYPERCALL_A);
    for (nr, args) in [(1 << 34, [0; 4]), (0, [0, 0, 1, 0]), (all, [all; 4])] {
        let events = [(BEGIN_NS, TID, CoreEvent::KvmHypercall { nr, args })];
        assert_eq!(kinds_of(&events), (vec![KVM_HYPERCALL_A, MORE], Whole));
        assert_eq!(common::events(&read(&file_of(MAIN, &events))), events);
    }
    let userspace = |reason, errno| CoreEvent::KvmUserspaceExit { reason, errno };
    whole(userspace(0xffff, -0x8000), KVM_USERSPACE_EXIT);
    cut(userspace(0x1_0000, 0x8000), userspace(0xffff, 0x7fff), KVM_USERSPACE_EXIT);
    let wakeup = |ns| CoreEvent::KvmVcpuWakeup { ns, waited: true, valid: true };
    whole(wakeup(u64::from(u32::MAX)), KVM_VCPU_WAKEUP);
    cut(wakeup(1 << 32), wakeup(u64::from(u32::MAX)), KVM_VCPU_WAKEUP);
    let pio = |port, size, count| CoreEvent::KvmPio {
        access: Access::Read,
        port,
        size,
        count,
        value: None,
    };
    whole(pio(0xffff, 8, 0x3fff), KVM_PIO);
    cut(pio(0x1_0000, 16, 0x4000), pio(0xffff, 8, 0x3fff), KVM_PIO);
    cut(pio(0, 3, 0), pio(0, 2, 0), KVM_PIO);
    let mmio = |len| CoreEvent::KvmMmio { access: Access::Write, gpa: all, len, value: None };
    whole(mmio(255), KVM_MMIO);
    cut(mmio(256), mmio(255), KVM_MMIO);
    let fault = |error_code| CoreEvent::KvmPageFault { gpa: all, error_code };
    whole(fault((1 << 34) - 1), KVM_PAGE_FAULT);
    whole(fault(1 << 34), KVM_PAGE_FAULT_L);
    let set_irq = |level| CoreEvent::KvmSetIrq { gsi: u32::MAX, level };
    whole(set_irq(1), KVM_SET_IRQ);
    cut(set_irq(2), set_irq(1), KVM_SET_IRQ);
}

#[test]
fn interrupts() {
    let enter = |irq| CoreEvent::IrqEntry { irq, name: Comm::default() };
    let leave = |irq| CoreEvent::IrqExit { irq, handled: true };
    pair(enter(8191), leave(8191), (1 << 20) - 1, &[IRQ]);
    pair(enter(8192), leave(8192), 1, &[IRQ_ENTRY, IRQ_EXIT]);
    pair(enter(1), leave(1), 1 << 20, &[IRQ_ENTRY, IRQ_EXIT]);
    pair(enter(1), leave(2), 1, &[IRQ_ENTRY, IRQ_EXIT]);
    pair(enter(-1), leave(-1), 1, &[IRQ_ENTRY, IRQ_EXIT]);
    let timer = VectorSource::LocalTimer;
    let enter = |vector| CoreEvent::VectorEntry { source: timer, vector };
    let leave = |source, vector| CoreEvent::VectorExit { source, vector };
    pair(enter(255), leave(timer, 255), (1 << 22) - 1, &[VECTOR]);
    pair(enter(1), leave(timer, 1), 1 << 22, &[VECTOR_ENTRY, VECTOR_EXIT]);
    pair(enter(1), leave(timer, 2), 1, &[VECTOR_ENTRY, VECTOR_EXIT]);
    pair(enter(1), leave(VectorSource::Other, 1), 1, &[VECTOR_ENTRY, VECTOR_EXIT]);
    for source in VectorSource::ALL {
        whole(CoreEvent::VectorEntry { source, vector: 255 }, VECTOR_ENTRY);
    }
    cut(enter(256), enter(255), VECTOR_ENTRY);
    let enter = |vector| CoreEvent::SoftirqEntry { vector };
    let leave = |vector| CoreEvent::SoftirqExit { vector };
    pair(enter(15), leave(15), (1 << 30) - 1, &[SOFTIRQ]);
    pair(enter(15), leave(15), 1 << 30, &[SOFTIRQ_ENTRY, SOFTIRQ_EXIT]);
    pair(enter(1), leave(2), 1, &[SOFTIRQ_ENTRY, SOFTIRQ_EXIT]);
    let raise = |vector| CoreEvent::SoftirqRaise { vector, context: None };
    whole(raise(15), SOFTIRQ_RAISE);
    cut(raise(16), raise(15), SOFTIRQ_RAISE);
}

#[test]
fn interrupts_on_their_way() {
    let accept = |vcpu, vector, mode| CoreEvent::KvmAccept {
        vcpu: VcpuId(vcpu),
        vector,
        mode,
        hardware: true,
        context: None,
    };
    whole(accept(0xffff, 255, 7), KVM_ACCEPT);
    cut(accept(0x1_0000, 1, 1), accept(0xffff, 1, 1), KVM_ACCEPT);
    cut(accept(1, 256, 1), accept(1, 255, 1), KVM_ACCEPT);
    cut(accept(1, 1, 8), accept(1, 1, 7), KVM_ACCEPT);
    // What was injected before is no interval, also with an entry behind it.
    let inject = CoreEvent::KvmInjVirq { vector: 1, reinjected: true };
    pair(inject, CoreEvent::KvmEntry { vcpu: Some(VcpuId(1)), rip: None }, 1, &[OTHER, KVM_ENTRY]);
}

#[test]
fn requests_with_ids() {
    let request = |sectors, id| BlockRequest {
        device: u32::MAX,
        sector: u64::MAX,
        sectors,
        op: BlockOp::Other,
        id,
    };
    let most = (1 << 24) - 1;
    whole(CoreEvent::BlockIssue(request(most, Some(most))), OTHER);
    let most_id = CoreEvent::BlockIssue(request(1, Some(most)));
    cut(CoreEvent::BlockIssue(request(1, Some(1 << 24))), most_id, OTHER);
    let complete = |error, id| CoreEvent::BlockComplete { request: request(1, id), error };
    whole(complete(-128, Some(0)), OTHER);
    cut(complete(-129, Some(1)), complete(-128, Some(1)), OTHER);
    // Those without have room for every error.
    whole(complete(i32::MIN, None), BLOCK_COMPLETE);
}

#[test]
fn system_calls() {
    let enter = |nr| CoreEvent::SyscallEnter { nr };
    let leave = |nr, ret| CoreEvent::SyscallExit { nr, ret };
    for ret in [-64, 959] {
        pair(enter(511), leave(511, ret), (1 << 15) - 1, &[SYSCALL_S]);
    }
    pair(enter(1), leave(1, -65), 1, &[SYSCALL]);
    pair(enter(1), leave(1, 960), 1, &[SYSCALL]);
    pair(enter(512), leave(512, 0), 1, &[SYSCALL]);
    pair(enter(1), leave(1, 0), 1 << 15, &[SYSCALL]);
    pair(enter(1023), leave(1023, i64::MIN), (1 << 24) - 1, &[SYSCALL]);
    pair(enter(1023), leave(1023, 0), 1 << 24, &[SYS_ENTER, SYS_EXIT_S]);
    pair(enter(1024), leave(1024, 0), 1, &[SYS_ENTER, SYS_EXIT]);
    pair(enter(-1), leave(-1, -38), 1, &[SYS_ENTER, SYS_EXIT]);
    whole(leave(1023, (1 << 23) - 1), SYS_EXIT_S);
    whole(leave(1023, -(1 << 23)), SYS_EXIT_S);
    whole(leave(1023, 1 << 23), SYS_EXIT);
    whole(leave(0, -(1 << 23) - 1), SYS_EXIT);
    cut(enter(1 << 31), enter(-(1 << 31)), SYS_ENTER);
}

#[test]
fn devices() {
    let request = |sectors| BlockRequest {
        device: u32::MAX,
        sector: u64::MAX,
        sectors,
        op: BlockOp::Other,
        id: None,
    };
    let insert = |sectors| CoreEvent::BlockInsert(request(sectors));
    whole(insert((1 << 24) - 1), BLOCK_INSERT);
    cut(insert(1 << 24), insert((1 << 24) - 1), BLOCK_INSERT);
    whole(CoreEvent::BlockComplete { request: request(0), error: i32::MIN }, BLOCK_COMPLETE);
    let xmit = |skb, bytes, code| CoreEvent::NetXmit { skb, bytes, device: Comm::new(b"e"), code };
    whole(xmit(u64::MAX, (1 << 20) - 1, 127), NET_XMIT);
    whole(xmit(1 << 54, 0, -128), NET_XMIT);
    cut(xmit(0, 1 << 20, 128), xmit(0, (1 << 20) - 1, 127), NET_XMIT);
    cut(xmit(0, 0, -129), xmit(0, 0, -128), NET_XMIT);
    // Not an address any kernel has: the top byte is no copy of bit 55.
    cut(xmit(1 << 56, 0, 0), xmit(0, 0, 0), NET_XMIT);
}
