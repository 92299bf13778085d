//! One step of a route: a guest's clock to its parent's, in pieces by host time.
//!
//! A guest's clock is not one map for ever: at a reboot or a resynchronisation its TSC offset
//! changes, and the guest's stamps may start from small numbers again. Each [`Piece`] holds for a
//! window of host time; a stamp belongs to a piece whose map puts it into that piece's window.
//! Windows of neighbours overlap where nobody saw the moment of the change. There, and where a
//! restarted clock shows the same numbers again, the order of the stream decides
//! ([`Hop::follow`]): its stamps never run backwards while the clock is the same.

use crate::{affine::GuestTsc, curve::Curve, time_shift::TimeShift};

/// Guest to parent.
#[derive(Clone, Debug)]
pub(crate) enum Map {
    Tsc(GuestTsc),
    Curve(Box<Curve>),
    Shift(TimeShift),
}

impl Map {
    /// The parent's stamp, or `None` if there is none such.
    #[inline]
    pub(crate) fn host_at(&self, guest: u64) -> Option<u64> {
        match self {
            Map::Tsc(tsc) => tsc.host_from_guest(guest),
            Map::Curve(curve) => u64::try_from(curve.host_at(guest)).ok(),
            Map::Shift(shift) => shift.host_at(guest),
        }
    }

    /// For comparisons only: also before the parent's zero and beyond 64 bits. Never decreasing.
    fn host_unlimited(&self, guest: u64) -> i128 {
        match self {
            Map::Tsc(tsc) => match tsc.host_from_guest(guest) {
                Some(host) => i128::from(host),
                None if i128::from(guest) < i128::from(tsc.offset()) => -1,
                None => i128::MAX,
            },
            Map::Curve(curve) => curve.host_at(guest),
            Map::Shift(shift) => shift.host_at(guest).map_or(i128::MAX, i128::from),
        }
    }

    /// How far the parent's stamp may be off, in the parent's ticks.
    pub(crate) fn bound_at(&self, guest: u64) -> u64 {
        match self {
            Map::Tsc(tsc) => tsc.bound_ticks(),
            Map::Curve(curve) => curve.bound_at(guest),
            Map::Shift(shift) => shift.bound_at(guest),
        }
    }

    /// The first guest stamp that maps to `host` or later.
    pub(crate) fn first_guest(&self, host: u64) -> Option<u64> {
        first_guest(self, host.into())
    }

    /// The largest bound within the span the evidence covers.
    pub(crate) fn worst_bound(&self) -> u64 {
        match self {
            Map::Tsc(tsc) => tsc.bound_ticks(),
            Map::Curve(curve) => curve.worst_bound(),
            Map::Shift(shift) => shift.worst_bound(),
        }
    }

    /// What a bound on the guest's stamp becomes on its way, in the parent's ticks.
    pub(crate) fn grown(&self, bound: u64) -> Option<u64> {
        match self {
            _ if bound == 0 => Some(0),
            Map::Tsc(tsc) => bound.checked_mul(tsc.bound_ticks().checked_add(1)?),
            Map::Curve(curve) => curve.grown(bound),
            Map::Shift(_) => Some(bound),
        }
    }

    /// Guest ticks per parent tick, for printing.
    pub(crate) fn rate(&self) -> f64 {
        match self {
            Map::Tsc(tsc) => tsc.rate(),
            Map::Curve(curve) => 1.0 / curve.slope(),
            Map::Shift(shift) => shift.rate(),
        }
    }

    /// Parent minus guest (in the parent's ticks) where the evidence starts, for printing.
    pub(crate) fn offset(&self) -> i128 {
        match self {
            Map::Tsc(tsc) => -i128::from(tsc.offset()),
            Map::Shift(shift) => shift.first().map_or(0, |s| i128::from(s.offset)),
            Map::Curve(curve) => {
                let (guest, host) = curve.start();
                i128::from(host) - scaled(guest, curve.slope())
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "saturates, for printing only")]
#[expect(clippy::cast_precision_loss, reason = "only where the clocks differ in unit or drift")]
fn scaled(guest: u64, slope: f64) -> i128 {
    if slope == 1.0 { i128::from(guest) } else { (guest as f64 * slope) as i128 }
}

/// A map and the host time it holds for.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) map: Map,
    /// Guest stamps that the map puts into the piece's window of host time.
    guest_first: u64,
    guest_last: u64,
}

impl Piece {
    /// A map for the guest's stamps in `window` (both ends included).
    pub(crate) fn of_stamps(map: Map, window: (u64, u64)) -> Piece {
        Piece { map, guest_first: window.0, guest_last: window.1 }
    }

    /// A map that holds in `window` of the parent's time (both ends included).
    pub(crate) fn new(map: Map, window: (u64, u64)) -> Piece {
        let at_least = |host: i128| first_guest(&map, host);
        let guest_first = at_least(window.0.into()).unwrap_or(u64::MAX);
        let guest_last = match at_least(i128::from(window.1) + 1) {
            Some(after) => after.saturating_sub(1),
            None => u64::MAX,
        };
        Piece { map, guest_first, guest_last }
    }

    #[inline]
    fn has(&self, guest: u64) -> bool {
        self.guest_first <= guest && guest <= self.guest_last
    }
}

/// The first guest stamp that maps to `host` or later.
fn first_guest(map: &Map, host: i128) -> Option<u64> {
    if map.host_unlimited(u64::MAX) < host {
        return None;
    }
    let (mut below, mut at) = (0u64, u64::MAX);
    while below < at {
        let middle = below + (at - below) / 2;
        if map.host_unlimited(middle) < host { below = middle + 1 } else { at = middle }
    }
    Some(at)
}

/// The pieces of one clock, by host time. Never empty.
#[derive(Clone, Debug)]
pub(crate) struct Hop {
    first: Piece,
    later: Vec<Piece>,
    /// The piece that each boot of the machine begins with; as the last one says from there on.
    boots: Vec<usize>,
}

/// Where a stream is among the pieces.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// The piece that the stream begins with.
    start: usize,
    piece: usize,
    last: u64,
}

impl Hop {
    /// `None` without a piece.
    pub(crate) fn new(pieces: Vec<Piece>) -> Option<Hop> {
        let mut pieces = pieces.into_iter();
        Some(Hop { first: pieces.next()?, later: pieces.collect(), boots: Vec::new() })
    }

    pub(crate) fn single(map: Map) -> Hop {
        Hop { first: Piece::new(map, (0, u64::MAX)), later: Vec::new(), boots: Vec::new() }
    }

    /// With the pieces that the machine's boots begin with.
    pub(crate) fn with_boots(mut self, boots: Vec<usize>) -> Hop {
        self.boots = boots;
        self
    }

    /// Where a stream of this boot (0 for the first one recorded) begins.
    pub(crate) fn place_of_boot(&self, boot: usize) -> Place {
        let piece = self.boots.get(boot).or(self.boots.last()).copied().unwrap_or(0);
        let start = if boot == 0 { 0 } else { piece.min(self.later.len()) };
        Place { start, piece: start, last: 0 }
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &Piece> {
        std::iter::once(&self.first).chain(&self.later)
    }

    pub(crate) fn count(&self) -> usize {
        1 + self.later.len()
    }

    /// The map, if there is only one.
    pub(crate) fn only(&self) -> Option<&Map> {
        self.later.is_empty().then_some(&self.first.map)
    }

    /// The map for a stamp of a stream on its own: the first piece in whose window it falls, else
    /// the last one.
    #[inline]
    pub(crate) fn map_at(&self, place: Place, guest: u64) -> &Map {
        if self.later.is_empty() {
            return &self.first.map;
        }
        let holds = self.pieces().skip(place.start).find(|p| p.has(guest));
        &holds.or(self.later.last()).unwrap_or(&self.first).map
    }

    /// The map for the next stamp of a stream in order. A stamp that runs backwards, or lies outside
    /// the window of the stream's piece, belongs to the next piece in whose window it lies.
    #[inline]
    pub(crate) fn follow(&self, place: &mut Place, guest: u64) -> &Map {
        if self.later.is_empty() {
            return &self.first.map;
        }
        let now = self.piece(place.piece);
        if guest < place.last || !now.has(guest) {
            let next = (place.piece + 1..self.count()).find(|at| self.piece(*at).has(guest));
            // Nowhere else to go: an early first stamp, or a damaged one. Stay.
            place.piece = next.unwrap_or(place.piece);
        }
        place.last = guest;
        &self.piece(place.piece).map
    }

    fn piece(&self, at: usize) -> &Piece {
        at.checked_sub(1).and_then(|at| self.later.get(at)).unwrap_or(&self.first)
    }

    pub(crate) fn worst_bound(&self) -> u64 {
        self.pieces().map(|p| p.map.worst_bound()).max().unwrap_or(0)
    }
}
