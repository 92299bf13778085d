//! From one stream's stamps to trace time, as fast as a merge needs it.

use crate::{
    affine::TickRate,
    composed::{Composed, ROUNDING_TICKS},
    error::ClockError,
    hop::{Hop, Map, Place},
};
use std::sync::Arc;
use transect_model::time::{ErrorBoundNs, Source, Timestamp, Trace};

/// From the reference clock's stamps to trace time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToTrace {
    /// The reference counts nanoseconds, or ticks of unknown length: trace time is its number.
    Same,
    /// The reference counts ticks.
    Rate(TickRate),
}

impl ToTrace {
    #[inline]
    pub(crate) fn trace(self, stamp: u64) -> Option<i64> {
        match self {
            ToTrace::Same => i64::try_from(stamp).ok(),
            ToTrace::Rate(rate) => rate.ns_from_ticks(stamp),
        }
    }

    pub(crate) fn bound(self, ticks: u64) -> u64 {
        match self {
            ToTrace::Same => ticks,
            ToTrace::Rate(rate) => rate.ns_bound_from_ticks(ticks),
        }
    }
}

/// The common case, with everything looked up beforehand.
#[derive(Clone, Debug)]
enum Fast {
    /// A constant to subtract, then the rate. Also the reference's own streams (offset 0).
    Offset(i64),
    /// Estimates, and ways of several steps: one table.
    Composed(Composed),
    /// Anything else.
    General,
}

/// Converts the stamps of one stream (one CPU of one machine). Cheap to clone; `Send`.
///
/// Use [`Converter::follow`] for a stream read in order: it knows on which side of a guest's
/// reboot it is. The other functions look at a stamp on its own and take the earliest piece in
/// whose window it falls.
#[derive(Clone, Debug)]
pub struct Converter {
    fast: Fast,
    to_trace: ToTrace,
    hops: Arc<[Hop]>,
    places: Vec<Place>,
}

impl Converter {
    pub(crate) fn new(hops: Vec<Hop>, to_trace: ToTrace, boot: usize) -> Converter {
        let offset = match hops.as_slice() {
            [] => Some(0),
            [hop] => match hop.only() {
                Some(Map::Tsc(tsc)) => tsc.plain_offset(),
                _ => None,
            },
            _ => None,
        };
        let fast = match offset {
            Some(offset) => Fast::Offset(offset),
            None => Composed::new(&hops).map_or(Fast::General, Fast::Composed),
        };
        let places = hops.iter().map(|hop| hop.place_of_boot(boot)).collect();
        Converter { fast, to_trace, hops: hops.into(), places }
    }

    /// Trace time of a stamp, and how far it may be off. Errors: a stamp no clock can show.
    pub fn trace_from_source(
        &self,
        stamp: Timestamp<Source>,
    ) -> Result<(Timestamp<Trace>, ErrorBoundNs), ClockError> {
        let mut at = stamp.get();
        let mut bound = 0u64;
        for (hop, place) in self.hops.iter().zip(&self.places) {
            let map = hop.map_at(*place, at);
            let own = map.bound_at(at);
            let grown = map.grown(bound).and_then(|b| b.checked_add(own));
            bound = grown.ok_or(out_of_range(stamp))?;
            at = map.host_at(at).ok_or(out_of_range(stamp))?;
        }
        if let Fast::Composed(_) = self.fast {
            bound = bound.checked_add(ROUNDING_TICKS).ok_or(out_of_range(stamp))?;
        }
        Ok((self.trace_only(stamp)?, ErrorBoundNs(self.to_trace.bound(bound))))
    }

    /// Trace time of a stamp, without the bound: for inner loops.
    #[inline]
    pub fn trace_only(&self, stamp: Timestamp<Source>) -> Result<Timestamp<Trace>, ClockError> {
        let host = match &self.fast {
            Fast::Offset(offset) => add(stamp.get(), *offset),
            Fast::Composed(composed) => {
                composed.host_at(stamp.get()).or_else(|| self.step_by_step(stamp.get()))
            }
            Fast::General => self.step_by_step(stamp.get()),
        };
        self.finish(stamp, host)
    }

    /// Trace time of the next stamp of a stream, in the stream's order.
    #[inline]
    pub fn follow(&mut self, stamp: Timestamp<Source>) -> Result<Timestamp<Trace>, ClockError> {
        let host = match &self.fast {
            // Nearly every stream's: what its loop is compiled with.
            Fast::Offset(offset) => add(stamp.get(), *offset),
            Fast::Composed(_) | Fast::General => self.follow_pieces(stamp.get()),
        };
        self.finish(stamp, host)
    }

    #[inline(never)]
    fn follow_pieces(&mut self, stamp: u64) -> Option<u64> {
        match &mut self.fast {
            Fast::Composed(composed) => composed.follow(stamp).or_else(|| self.step_by_step(stamp)),
            Fast::Offset(_) | Fast::General => self.follow_step_by_step(stamp),
        }
    }

    fn step_by_step(&self, stamp: u64) -> Option<u64> {
        let mut hops = self.hops.iter().zip(&self.places);
        hops.try_fold(stamp, |at, (hop, place)| hop.map_at(*place, at).host_at(at))
    }

    fn follow_step_by_step(&mut self, stamp: u64) -> Option<u64> {
        let mut hops = self.hops.iter().zip(&mut self.places);
        hops.try_fold(stamp, |at, (hop, place)| hop.follow(place, at).host_at(at))
    }

    #[inline]
    fn finish(
        &self,
        stamp: Timestamp<Source>,
        host: Option<u64>,
    ) -> Result<Timestamp<Trace>, ClockError> {
        let trace = host.and_then(|host| self.to_trace.trace(host));
        trace.map(Timestamp::new).ok_or(out_of_range(stamp))
    }

    /// Into how many pieces the route is cut by restarts and changed offsets; 1 without any.
    pub fn pieces(&self) -> usize {
        self.hops.iter().map(Hop::count).max().unwrap_or(1)
    }
}

/// The reference's stamp, `offset` being the guest's minus it.
#[inline]
fn add(stamp: u64, offset: i64) -> Option<u64> {
    if offset <= 0 {
        stamp.checked_add(offset.unsigned_abs())
    } else {
        stamp.checked_sub(offset.unsigned_abs())
    }
}

fn out_of_range(stamp: Timestamp<Source>) -> ClockError {
    ClockError::OutOfRange { stamp: stamp.get() }
}
