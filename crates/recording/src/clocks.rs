//! What a clock graph says of the recording as a whole.

use crate::facts::TimeUnit;
use transect_clock::{ClockGraph, Unit};
use transect_model::ids::CpuId;
use transect_model::time::{Source, Timestamp, Trace};

/// From a stamp of the host's own clock to trace time.
pub(crate) fn host_clock(clocks: &ClockGraph) -> impl Fn(u64) -> Option<Timestamp<Trace>> {
    let host = clocks.converter(clocks.reference(), CpuId(0)).ok();
    move |raw| host.as_ref()?.trace_only(Timestamp::<Source>::new(raw)).ok()
}

/// The unit of trace time.
pub fn unit(clocks: &ClockGraph) -> TimeUnit {
    match clocks.unit() {
        Unit::Nanoseconds => TimeUnit::Ns,
        Unit::Ticks => TimeUnit::Ticks,
    }
}
