//! Readings and rates of clocks as evidence for a recording.

use transect_clock::evidence::{Evidence, RateSource};
use transect_guest::stamp::TscReading;
use transect_model::ids::MachineId;
use transect_tracefs::{
    X86_TSC,
    tsc::{HowRated, TscRate, TscSample, rate_from_perf},
};

/// How ticks become nanoseconds, and the sample a better answer is measured from.
pub(super) enum Rate {
    /// The clock counts nanoseconds.
    NotNeeded,
    /// The kernel's own factors.
    Known(TscRate),
    /// Measured, from this sample on.
    From(TscSample),
}

impl Rate {
    pub(super) fn begin(clock: &str) -> Self {
        if clock != X86_TSC {
            return Rate::NotNeeded;
        }
        rate_from_perf().map_or_else(|| Rate::From(TscSample::take()), Rate::Known)
    }

    pub(super) fn now(&self) -> Option<TscRate> {
        match self {
            Rate::NotNeeded => None,
            Rate::Known(rate) => Some(*rate),
            Rate::From(first) => first.rate_until(&TscSample::take()),
        }
    }
}

/// A reading as evidence about a machine's clock.
pub(super) fn reading_evidence(machine: MachineId, reading: &TscReading) -> Evidence {
    Evidence::TscReading {
        machine,
        clock: reading.clock.name().to_owned(),
        tsc_before: reading.tsc_before,
        ns: reading.ns,
        tsc_after: reading.tsc_after,
    }
}

/// A rate as evidence about a machine's clock.
pub(super) fn rate_evidence(machine: MachineId, rate: &TscRate) -> Evidence {
    Evidence::TscRate {
        machine,
        mult: rate.mult,
        shift: rate.shift,
        offset_ns: 0,
        how: match rate.how {
            HowRated::PerfPage => RateSource::PerfMmap,
            HowRated::Measured => RateSource::Measured,
        },
        error_ppm: rate.error_ppm,
    }
}
