//! `vmscan:mm_vmscan_*_reclaim_*` (`include/trace/events/vmscan.h`).

use super::fields::{Decode, Fields, decoder};
use transect_model::event::CoreEvent;

pub(super) fn begin(f: &Fields<'_>, memcg: bool) -> Option<Decode> {
    let order = f.int(&["order"])?;
    decoder(move |p| Some(CoreEvent::ReclaimBegin { memcg, order: order.i32(p)? }))
}

pub(super) fn end(f: &Fields<'_>, memcg: bool) -> Option<Decode> {
    let pages = f.int(&["nr_reclaimed"])?;
    decoder(move |p| Some(CoreEvent::ReclaimEnd { memcg, pages: pages.u64(p)? }))
}
