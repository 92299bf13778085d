//! `workqueue:*` (`include/trace/events/workqueue.h`).

use super::fields::{Decode, Fields, decoder};
use transect_model::event::CoreEvent;

pub(super) fn start(f: &Fields<'_>) -> Option<Decode> {
    let (work, function) = (f.int(&["work"])?, f.int(&["function"])?);
    decoder(move |p| Some(CoreEvent::WorkStart { work: work.u64(p)?, function: function.u64(p)? }))
}

pub(super) fn queue(f: &Fields<'_>) -> Option<Decode> {
    let (work, function) = (f.int(&["work"])?, f.int(&["function"])?);
    let context = f.context();
    decoder(move |p| {
        let (work, function) = (work.u64(p)?, function.u64(p)?);
        Some(CoreEvent::WorkQueue { work, function, context: context(p) })
    })
}

/// `function` came with Linux 5.6; before, the start alone told it.
pub(super) fn end(f: &Fields<'_>) -> Option<Decode> {
    let (work, function) = (f.int(&["work"])?, f.int(&["function"]));
    decoder(move |p| {
        let function = match function {
            Some(function) => function.u64(p)?,
            None => 0,
        };
        Some(CoreEvent::WorkEnd { work: work.u64(p)?, function })
    })
}
