//! `block:*` (`include/trace/events/block.h`).

use super::fields::{Decode, Fields, decoder};
use crate::access::{CommAccess, IntAccess};
use transect_model::event::{BlockOp, BlockRequest, CoreEvent};

/// The fields all events of a request share.
struct Request {
    device: IntAccess,
    sector: IntAccess,
    sectors: IntAccess,
    rwbs: CommAccess,
}

impl Request {
    fn new(f: &Fields<'_>) -> Option<Self> {
        Some(Request {
            device: f.int(&["dev"])?,
            sector: f.int(&["sector"])?,
            sectors: f.int(&["nr_sector"])?,
            rwbs: f.comm(&["rwbs"])?,
        })
    }

    fn get(&self, p: &[u8]) -> Option<BlockRequest> {
        Some(BlockRequest {
            device: self.device.u32(p)?,
            sector: self.sector.u64(p)?,
            sectors: self.sectors.u32(p)?,
            op: op(self.rwbs.get(p)?.as_bytes()),
            id: None,
        })
    }
}

/// The operation in `blk_fill_rwbs`'s letters (kernel/trace/blktrace.c): `F` for a flush *before*
/// the request, then the operation's letter, then flags, of which `F` (FUA) is one, too. A flush by
/// itself is `F` or `FF`; `DE` (secure erase) and `N` and the zones' letters are others.
fn op(rwbs: &[u8]) -> BlockOp {
    let of = |letter: u8| match letter {
        b'R' => Some(BlockOp::Read),
        b'W' => Some(BlockOp::Write),
        b'D' => Some(BlockOp::Discard),
        b'N' | b'Z' => Some(BlockOp::Other),
        _ => None,
    };
    match rwbs {
        [b'D', b'E', ..] | [b'F', b'D', b'E', ..] => BlockOp::Other,
        [b'F', second, ..] => of(*second).unwrap_or(BlockOp::Flush),
        [b'F'] => BlockOp::Flush,
        [first, ..] => of(*first).unwrap_or(BlockOp::Other),
        [] => BlockOp::Other,
    }
}

pub(super) fn insert(f: &Fields<'_>) -> Option<Decode> {
    let request = Request::new(f)?;
    decoder(move |p| Some(CoreEvent::BlockInsert(request.get(p)?)))
}

pub(super) fn issue(f: &Fields<'_>) -> Option<Decode> {
    let request = Request::new(f)?;
    decoder(move |p| Some(CoreEvent::BlockIssue(request.get(p)?)))
}

/// `error` was called `errors` in older kernels (4.4).
pub(super) fn complete(f: &Fields<'_>) -> Option<Decode> {
    let (request, error) = (Request::new(f)?, f.int(&["error", "errors"])?);
    decoder(move |p| {
        Some(CoreEvent::BlockComplete { request: request.get(p)?, error: error.i32(p)? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters() {
        let ops = [
            ("R", BlockOp::Read),
            ("RA", BlockOp::Read),
            ("RSM", BlockOp::Read),
            ("WS", BlockOp::Write),
            ("WFS", BlockOp::Write),
            ("FWFS", BlockOp::Write),
            ("FF", BlockOp::Flush),
            ("F", BlockOp::Flush),
            ("FS", BlockOp::Flush),
            ("DS", BlockOp::Discard),
            ("DE", BlockOp::Other),
            ("N", BlockOp::Other),
            ("FN", BlockOp::Other),
            ("ZRA", BlockOp::Other),
            ("", BlockOp::Other),
        ];
        for (letters, expected) in ops {
            assert_eq!(op(letters.as_bytes()), expected, "{letters}");
        }
    }
}
