//! `lock:contention_*` (`include/trace/events/lock.h`, since Linux 5.19).

use super::fields::{Decode, Fields, decoder};
use transect_model::event::CoreEvent;

pub(super) fn begin(f: &Fields<'_>) -> Option<Decode> {
    let (lock, flags) = (f.int(&["lock_addr"])?, f.int(&["flags"])?);
    decoder(move |p| {
        Some(CoreEvent::LockBegin { lock: lock.u64(p)?, flags: flags.u32(p)?, owner: None })
    })
}

pub(super) fn end(f: &Fields<'_>) -> Option<Decode> {
    let (lock, ret) = (f.int(&["lock_addr"])?, f.int(&["ret"])?);
    decoder(move |p| Some(CoreEvent::LockEnd { lock: lock.u64(p)?, ret: ret.i32(p)? }))
}
