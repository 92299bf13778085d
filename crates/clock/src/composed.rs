//! Several maps in a row as one: a table of straight pieces, so that a stamp costs one
//! multiplication however long its way is.

use crate::hop::{Hop, Map};
use std::sync::Arc;

/// Fraction bits of slopes, which stay below 2¹⁴.
const FRAC_BITS: u32 = 48;
/// How far beyond the last knot the last rate is measured.
const BEYOND: u64 = 1 << 40;
/// What the rounding of a composed map differs from that of its parts, at most: a tick for each of
/// a knot's, a slope's and a stamp's.
pub(crate) const ROUNDING_TICKS: u64 = 3;

/// From this stamp on.
#[derive(Clone, Copy, Debug)]
struct Straight {
    from: u64,
    /// Stamps it holds for, less one.
    reach: u64,
    host: u64,
    slope: u64,
}

impl Straight {
    #[inline]
    fn host_at(&self, distance: u64) -> Option<u64> {
        let risen = (u128::from(distance) * u128::from(self.slope)) >> FRAC_BITS;
        self.host.checked_add(u64::try_from(risen).ok()?)
    }
}

/// The table, and the piece that was used last.
#[derive(Clone, Debug)]
pub(crate) struct Composed {
    pieces: Arc<[Straight]>,
    near: Straight,
}

impl Composed {
    /// The maps of hops that are in one piece each, if at least one is an estimate (constants
    /// compose by themselves).
    pub(crate) fn new(hops: &[Hop]) -> Option<Composed> {
        let maps: Vec<&Map> = hops.iter().map(Hop::only).collect::<Option<_>>()?;
        if maps.iter().any(|map| matches!(map, Map::Shift(_))) {
            return None;
        }
        let through = |stamp: u64| maps.iter().try_fold(stamp, |at, map| map.host_at(at));
        let mut pieces: Vec<Straight> = Vec::new();
        let bends = bends(&maps)?;
        for (at, from) in bends.iter().copied().enumerate() {
            let next = bends.get(at + 1).copied();
            let to = next.unwrap_or(from.checked_add(BEYOND)?);
            let host = through(from)?;
            let rise = u128::from(through(to)?.checked_sub(host)?);
            let slope = rise.checked_shl(FRAC_BITS)? / u128::from(to - from);
            let slope = u64::try_from(slope).ok().filter(|slope| slope >> FRAC_BITS < 16_384)?;
            let reach = next.map_or(u64::MAX - from, |next| next - from - 1);
            pieces.push(Straight { from, reach, host, slope });
        }
        let near = *pieces.first()?;
        Some(Composed { pieces: pieces.into(), near })
    }

    /// Where a stamp leads to; `None` before the first knot, or if it leaves 64 bits.
    #[inline]
    pub(crate) fn host_at(&self, stamp: u64) -> Option<u64> {
        let piece = self.find(stamp)?;
        piece.host_at(stamp - piece.from)
    }

    /// The same for stamps in order: the piece used last is tried first.
    #[inline]
    pub(crate) fn follow(&mut self, stamp: u64) -> Option<u64> {
        let distance = stamp.wrapping_sub(self.near.from);
        if distance <= self.near.reach {
            return self.near.host_at(distance);
        }
        self.near = *self.find(stamp)?;
        self.near.host_at(stamp - self.near.from)
    }

    fn find(&self, stamp: u64) -> Option<&Straight> {
        let after = self.pieces.partition_point(|piece| piece.from <= stamp);
        self.pieces.get(after.checked_sub(1)?)
    }
}

/// The stamps at which the way bends: each map's knots, seen from the way's start. Ascending.
fn bends(maps: &[&Map]) -> Option<Vec<u64>> {
    let mut bends = Vec::new();
    for (at, map) in maps.iter().enumerate() {
        let Map::Curve(curve) = map else { continue };
        let before = maps.get(..at)?;
        bends.extend(curve.knots().filter_map(|knot| first_that_reaches(before, knot)));
    }
    bends.sort_unstable();
    bends.dedup();
    (!bends.is_empty()).then_some(bends)
}

/// The first stamp that the maps bring to `knot` or later.
fn first_that_reaches(maps: &[&Map], knot: u64) -> Option<u64> {
    maps.iter().rev().try_fold(knot, |knot, map| map.first_guest(knot))
}
