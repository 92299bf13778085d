//! Typed events back to records; the inverse of `event::typed`.

use crate::{
    event::{Lost, XenEvent, XenVcpu},
    hypercall::Hypercall,
    word::{FLAG_64, LOST_RECORDS, NESTED_FLAG},
};
use transect_model::exit::Isa;

/// A record's parts.
pub(crate) struct Encoded {
    pub(crate) event: u32,
    pub(crate) words: [u32; 7],
    pub(crate) used: usize,
    pub(crate) stamped: bool,
}

fn with(event: u32, from: &[u32]) -> Encoded {
    let mut words = [0; 7];
    for (to, from) in words.iter_mut().zip(from) {
        *to = *from;
    }
    Encoded { event, words, used: from.len().min(7), stamped: true }
}

fn of_vcpu(event: u32, vcpu: XenVcpu, more: &[u32]) -> Encoded {
    let mut encoded = with(event, &[u32::from(vcpu.dom), u32::from(vcpu.vcpu)]);
    for (to, from) in encoded.words[2..].iter_mut().zip(more) {
        *to = *from;
    }
    encoded.used += more.len();
    encoded
}

fn of_dom(event: u32, dom: u16) -> Encoded {
    with(event, &[u32::from(dom)])
}

fn unstamped(mut encoded: Encoded) -> Encoded {
    encoded.stamped = false;
    encoded
}

/// Lower and upper half.
fn halves(value: u64) -> [u32; 2] {
    [(value & 0xffff_ffff) as u32, (value >> 32) as u32]
}

fn slice(slice_ns: Option<u32>) -> u32 {
    slice_ns.unwrap_or(u32::MAX)
}

fn call(event: u32, call: Hypercall) -> Encoded {
    let (words, used) = call.to_words();
    with(event, &words[..used])
}

fn exit(reason: u32, rip: u64, nested: bool, isa: Option<Isa>) -> Encoded {
    let number = if isa == Some(Isa::Svm) { 0x0008_1003 } else { 0x0008_1002 };
    let nested = if nested { NESTED_FLAG } else { 0 };
    let [low, high] = halves(rip);
    with(number | FLAG_64 | nested, &[reason, low, high])
}

fn lost(lost: &Lost) -> Encoded {
    let [low, high] = halves(lost.from_tsc);
    let current = u32::from(lost.current.vcpu) << 16 | u32::from(lost.current.dom);
    with(LOST_RECORDS, &[lost.count, current, low, high])
}

fn trap(trap: u16, error_code: Option<u16>, rip: u64) -> Encoded {
    let [low, high] = halves(rip);
    let has = if error_code.is_some() { 0x8000 } else { 0 };
    let word = u32::from(error_code.unwrap_or(0)) << 16 | has | u32::from(trap & 0x7fff);
    with(0x0020_1003 | FLAG_64, &[low, high, word])
}

/// The record of an event, in its 64-bit form; None for [`XenEvent::Other`].
pub(crate) fn encode(event: &XenEvent) -> Option<Encoded> {
    Some(match *event {
        XenEvent::Other => return None,
        XenEvent::Lost(ref what) => lost(what),
        XenEvent::RunstateChange { vcpu, old, new } => {
            with(0x0002_1001 | old.number() << 8 | new.number() << 4, &[vcpu.to_packed()])
        }
        XenEvent::ContinueRunning { vcpu } => with(0x0002_1002, &[vcpu.to_packed()]),
        XenEvent::SwitchInfPrev { vcpu, ran_ns } => of_vcpu(0x0002_800e, vcpu, &[ran_ns]),
        XenEvent::SwitchInfNext { vcpu, waited_ns, slice_ns } => {
            of_vcpu(0x0002_800f, vcpu, &[waited_ns, slice(slice_ns)])
        }
        XenEvent::SwitchInfCont { vcpu, ran_ns, slice_ns } => {
            of_vcpu(0x0002_8011, vcpu, &[ran_ns, slice(slice_ns)])
        }
        XenEvent::Switch { prev, next } => {
            of_vcpu(0x0002_800a, prev, &[u32::from(next.dom), u32::from(next.vcpu)])
        }
        XenEvent::Wake { vcpu } => of_vcpu(0x0002_8004, vcpu, &[]),
        XenEvent::Sleep { vcpu } => of_vcpu(0x0002_8003, vcpu, &[]),
        XenEvent::Block { vcpu } => of_vcpu(0x0002_8006, vcpu, &[]),
        XenEvent::Yield { vcpu } => of_vcpu(0x0002_8005, vcpu, &[]),
        XenEvent::Shutdown { vcpu, reason } => of_vcpu(0x0002_8007, vcpu, &[reason]),
        XenEvent::DomainScheduled { dom } => of_dom(0x0002_8001, dom),
        XenEvent::DomainUnscheduled { dom } => of_dom(0x0002_8002, dom),
        XenEvent::DomainCreated { dom } => of_dom(0x0004_1001, dom),
        XenEvent::DomainDestroyed { dom } => of_dom(0x0004_1002, dom),
        XenEvent::VmEntry { nested } => {
            with(0x0008_1001 | if nested { NESTED_FLAG } else { 0 }, &[])
        }
        XenEvent::VmExit { reason, rip, nested, isa } => exit(reason, rip, nested, isa),
        XenEvent::Injection { vector } => unstamped(with(0x0008_2004, &[vector, 0])),
        XenEvent::Interrupt { vector: Some(vector) } => unstamped(with(0x0008_200f, &[vector])),
        XenEvent::Interrupt { vector: None } => unstamped(with(0x0008_200f, &[])),
        XenEvent::Hypercall(what) => call(0x0020_100d, what),
        XenEvent::Subcall(what) => call(0x0020_200e, what),
        XenEvent::PvTrap { trap: number, error_code, rip } => trap(number, error_code, rip),
        XenEvent::PvPageFault { rip, addr, error_code } => {
            let ([r0, r1], [a0, a1]) = (halves(rip), halves(addr));
            with(0x0020_1004 | FLAG_64, &[r0, r1, a0, a1, error_code])
        }
        XenEvent::PvPrivop { rip } => with(0x0020_1006 | FLAG_64, &halves(rip)),
        XenEvent::PvMathState => with(0x0020_1008, &[]),
        XenEvent::PvPtwr { rip, addr, pte } => {
            let ([p0, p1], [a0, a1], [r0, r1]) = (halves(pte), halves(addr), halves(rip));
            with(0x0020_100b | FLAG_64, &[p0, p1, a0, a1, r0, r1])
        }
        XenEvent::HvmHypercall { op } => unstamped(with(0x0008_2012, &[op])),
        XenEvent::Halt { pending } => unstamped(with(0x0008_2013, &[u32::from(pending)])),
        XenEvent::GrantMap { dom } => of_dom(0x0010_f001, dom),
        XenEvent::GrantUnmap { dom } => of_dom(0x0010_f002, dom),
        XenEvent::GrantTransfer { dom } => of_dom(0x0010_f003, dom),
        XenEvent::IrqHandled { irq, took_tsc } => with(0x0080_2008, &[irq, 0, took_tsc]),
        XenEvent::IdleEntry { state } => with(0x0080_1002, &[state, 0, 0, 0]),
        XenEvent::IdleExit { state } => with(0x0080_1003, &[state, 0, 0, 0, 0, 0]),
        XenEvent::FrequencyChange { from_mhz, to_mhz } => with(0x0080_1001, &[from_mhz, to_mhz]),
    })
}
