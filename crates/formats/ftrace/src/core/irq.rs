//! `irq:*` and `raw_syscalls:*` (`include/trace/events/irq.h`, `syscalls.h`).

use super::fields::{Decode, Fields, decoder};
use transect_model::event::CoreEvent;

pub(super) fn entry(f: &Fields<'_>) -> Option<Decode> {
    let (irq, name) = (f.int(&["irq"])?, f.comm(&["name"]));
    decoder(move |p| {
        let name = name.as_ref().and_then(|name| name.get(p)).unwrap_or_default();
        Some(CoreEvent::IrqEntry { irq: irq.i32(p)?, name })
    })
}

pub(super) fn exit(f: &Fields<'_>) -> Option<Decode> {
    let (irq, ret) = (f.int(&["irq"])?, f.int(&["ret"])?);
    decoder(move |p| Some(CoreEvent::IrqExit { irq: irq.i32(p)?, handled: ret.bool(p)? }))
}

fn softirq(f: &Fields<'_>, event: fn(u32) -> CoreEvent) -> Option<Decode> {
    let vector = f.int(&["vec"])?;
    decoder(move |p| Some(event(vector.u32(p)?)))
}

pub(super) fn softirq_raise(f: &Fields<'_>) -> Option<Decode> {
    let (vector, context) = (f.int(&["vec"])?, f.context());
    decoder(move |p| Some(CoreEvent::SoftirqRaise { vector: vector.u32(p)?, context: context(p) }))
}

pub(super) fn softirq_entry(f: &Fields<'_>) -> Option<Decode> {
    softirq(f, |vector| CoreEvent::SoftirqEntry { vector })
}

pub(super) fn softirq_exit(f: &Fields<'_>) -> Option<Decode> {
    softirq(f, |vector| CoreEvent::SoftirqExit { vector })
}

pub(super) fn sys_enter(f: &Fields<'_>) -> Option<Decode> {
    let nr = f.int(&["id"])?;
    decoder(move |p| Some(CoreEvent::SyscallEnter { nr: nr.i64(p)? }))
}

pub(super) fn sys_exit(f: &Fields<'_>) -> Option<Decode> {
    let (nr, ret) = (f.int(&["id"])?, f.int(&["ret"])?);
    decoder(move |p| Some(CoreEvent::SyscallExit { nr: nr.i64(p)?, ret: ret.i64(p)? }))
}
