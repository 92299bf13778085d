//! `net:*` (`include/trace/events/net.h`).

use super::fields::{Decode, Fields, decoder};
use transect_model::event::CoreEvent;

pub(super) fn xmit(f: &Fields<'_>) -> Option<Decode> {
    let (skb, bytes) = (f.int(&["skbaddr"])?, f.int(&["len"])?);
    let (device, code) = (f.comm(&["name"])?, f.int(&["rc"])?);
    decoder(move |p| {
        Some(CoreEvent::NetXmit {
            skb: skb.u64(p)?,
            bytes: bytes.u32(p)?,
            device: device.get(p)?,
            code: code.i32(p)?,
        })
    })
}

pub(super) fn receive(f: &Fields<'_>) -> Option<Decode> {
    let (skb, bytes, device) = (f.int(&["skbaddr"])?, f.int(&["len"])?, f.comm(&["name"])?);
    decoder(move |p| {
        Some(CoreEvent::NetReceive {
            skb: skb.u64(p)?,
            bytes: bytes.u32(p)?,
            device: device.get(p)?,
        })
    })
}
