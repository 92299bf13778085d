//! From one stream's stamps to trace time, as fast as a merge needs it.

use crate::{
    affine::TickRate,
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
    fn trace(self, stamp: u64) -> Option<i64> {
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
#[derive(Clone, Copy, Debug)]
enum Fast {
    /// A constant to subtract, then the rate. Also the reference's own streams (offset 0).
    Offset(i64),
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
    pub(crate) fn new(hops: Vec<Hop>, to_trace: ToTrace) -> Converter {
        let fast = match hops.as_slice() {
            [] => Fast::Offset(0),
            [hop] => match hop.only() {
                Some(Map::Tsc(tsc)) => tsc.plain_offset().map_or(Fast::General, Fast::Offset),
                _ => Fast::General,
            },
            _ => Fast::General,
        };
        let places = vec![Place::default(); hops.len()];
        Converter { fast, to_trace, hops: hops.into(), places }
    }

    /// Trace time of a stamp, and how far it may be off. Errors: a stamp no clock can show.
    pub fn trace_from_source(
        &self,
        stamp: Timestamp<Source>,
    ) -> Result<(Timestamp<Trace>, ErrorBoundNs), ClockError> {
        let out_of_range = ClockError::OutOfRange { stamp: stamp.get() };
        let mut at = stamp.get();
        let mut bound = 0u64;
        for hop in self.hops.iter() {
            let map = hop.map_at(at);
            let own = map.bound_at(at);
            bound = bound
                .checked_mul(if bound == 0 { 0 } else { map.growth() })
                .and_then(|b| b.checked_add(own))
                .ok_or(out_of_range)?;
            at = map.host_at(at).ok_or(out_of_range)?;
        }
        let ts = self.to_trace.trace(at).ok_or(out_of_range)?;
        Ok((Timestamp::new(ts), ErrorBoundNs(self.to_trace.bound(bound))))
    }

    /// Trace time of a stamp, without the bound: for inner loops.
    #[inline]
    pub fn trace_only(&self, stamp: Timestamp<Source>) -> Result<Timestamp<Trace>, ClockError> {
        self.fast(stamp).unwrap_or_else(|| {
            let mut at = stamp.get();
            for hop in self.hops.iter() {
                at = hop.map_at(at).host_at(at).ok_or(out_of_range(stamp))?;
            }
            self.finish(stamp, at)
        })
    }

    /// Trace time of the next stamp of a stream, in the stream's order.
    #[inline]
    pub fn follow(&mut self, stamp: Timestamp<Source>) -> Result<Timestamp<Trace>, ClockError> {
        if let Some(done) = self.fast(stamp) {
            return done;
        }
        let mut at = stamp.get();
        for (hop, place) in self.hops.iter().zip(&mut self.places) {
            at = hop.follow(place, at).host_at(at).ok_or(out_of_range(stamp))?;
        }
        self.finish(stamp, at)
    }

    #[inline]
    fn fast(&self, stamp: Timestamp<Source>) -> Option<Result<Timestamp<Trace>, ClockError>> {
        let Fast::Offset(offset) = self.fast else { return None };
        let host = if offset <= 0 {
            stamp.get().checked_add(offset.unsigned_abs())
        } else {
            stamp.get().checked_sub(offset.unsigned_abs())
        };
        Some(host.ok_or(out_of_range(stamp)).and_then(|host| self.finish(stamp, host)))
    }

    #[inline]
    fn finish(&self, stamp: Timestamp<Source>, at: u64) -> Result<Timestamp<Trace>, ClockError> {
        self.to_trace.trace(at).map(Timestamp::new).ok_or(out_of_range(stamp))
    }

    /// Into how many pieces the route is cut by restarts and changed offsets; 1 without any.
    pub fn pieces(&self) -> usize {
        self.hops.iter().map(Hop::count).max().unwrap_or(1)
    }
}

fn out_of_range(stamp: Timestamp<Source>) -> ClockError {
    ClockError::OutOfRange { stamp: stamp.get() }
}
