//! The rate of the reference clock.

use crate::{
    affine::TickRate,
    clock_kind::{ClockKind, clock_kind},
    error::ClockError,
    evidence::{Evidence, RateSource},
    options::ClockOptions,
};
use transect_model::ids::MachineId;

/// The rate of the reference clock, and how far it may be off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) ticks: TickRate,
    pub(crate) offset_ns: i64,
    error_ppm: f64,
}

/// What a rate that is off by some ppm amounts to over the observed span (at least a second).
#[expect(clippy::cast_precision_loss, reason = "a rough figure by nature")]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
pub(crate) fn rate_error_ns(rate: Rate, span_ticks: u64) -> u64 {
    let span_ns = rate.ticks.ns_bound_from_ticks(span_ticks).max(1_000_000_000);
    (span_ns as f64 * rate.error_ppm.max(0.0) / 1e6).ceil().min(1e18) as u64
}

/// The rate that the evidence or the user gives for the reference clock; none if it is in nanoseconds or
/// unknown.
pub(crate) fn reference_rate(
    evidence: &[Evidence],
    reference: MachineId,
    clock: &str,
    options: ClockOptions,
) -> Result<Option<Rate>, ClockError> {
    if clock_kind(clock) == ClockKind::Nanoseconds {
        return Ok(None);
    }
    if let Some(hz) = options.tsc_hz {
        let ticks = TickRate::from_hz(hz)?;
        return Ok(Some(Rate { ticks, offset_ns: 0, error_ppm: 0.0 }));
    }
    let told = evidence.iter().filter_map(|e| match e {
        Evidence::TscRate { machine, mult, shift, offset_ns, how, error_ppm }
            if *machine == reference =>
        {
            // The kernel's own numbers define its nanoseconds: they cannot be off.
            let error_ppm = match how {
                RateSource::Measured | RateSource::XenReport => *error_ppm,
                RateSource::PerfMmap | RateSource::Tsc2nsec | RateSource::Given => 0.0,
            };
            Some((*mult, *shift, *offset_ns, error_ppm))
        }
        _ => None,
    });
    // Measured again over a longer span is measured better.
    let told = told.reduce(|a, b| if b.3 < a.3 { b } else { a });
    let Some((mult, shift, offset_ns, error_ppm)) = told else { return Ok(None) };
    let ticks = TickRate::new(mult, shift, offset_ns)?;
    Ok(Some(Rate { ticks, offset_ns, error_ppm }))
}
