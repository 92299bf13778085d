//! trace-cmd's TIMESHIFT option, applied as trace-cmd applies it.
//!
//! Imported pairs of host and guest files carry the alignment that trace-cmd found while
//! recording. To show the same stamps as `trace-cmd report`, its arithmetic is repeated exactly
//! (`timestamp_host_sync`, `lib/trace-cmd/trace-input.c`, 3.4): samples sorted by guest time, the
//! one at or before the stamp applies, with the INTERPOLATE flag the offset changes linearly up to
//! the next. Deviations are errors only: where trace-cmd's arithmetic would wrap, we refuse.
//!
//! With a scaled TSC that arithmetic is not the inverse of KVM's: it multiplies by the ratio once
//! more where it should divide. The stamps stay trace-cmd's (a second opinion on the same file
//! helps nobody), and the bound says how far they are from the inverse.

use crate::affine::GuestTsc;

/// One sample: from this guest time on, `host = ((guest * scaling) >> fraction) + offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at_guest: u64,
    pub(crate) offset: i64,
    pub(crate) scaling: u64,
    pub(crate) fraction: u32,
}

/// The samples of one guest CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeShift {
    samples: Vec<Sample>,
    pub(crate) interpolated: bool,
}

/// What trace-cmd states for its `ptp` protocol: `PTP_ACCURACY` ticks
/// (`lib/trace-cmd/trace-timesync-ptp.c`, 3.4). A claim of theirs, measured on one machine.
pub(crate) const PTP_ACCURACY_TICKS: u64 = 6_000;

impl TimeShift {
    pub(crate) fn push(&mut self, sample: Sample, interpolated: bool) {
        self.samples.push(sample);
        self.samples.sort_by_key(|s| s.at_guest);
        self.samples.dedup_by_key(|s| s.at_guest);
        self.interpolated |= interpolated;
    }

    pub(crate) fn len(&self) -> usize {
        self.samples.len()
    }

    pub(crate) fn host_at(&self, guest: u64) -> Option<u64> {
        let (from, to) = self.around(guest)?;
        // With a single sample trace-cmd does not scale.
        let Some(to) = to else { return guest.checked_add_signed(from.offset) };
        let scaled = (u128::from(guest) * u128::from(from.scaling)).checked_shr(from.fraction)?;
        let host = i128::try_from(scaled).ok()?.checked_add(self.offset(guest, from, to)?)?;
        u64::try_from(host).ok()
    }

    /// The sample that applies and the next one. After the last sample: the last two, as trace-cmd
    /// extrapolates.
    fn around(&self, guest: u64) -> Option<(&Sample, Option<&Sample>)> {
        let after = self.samples.partition_point(|s| s.at_guest <= guest);
        let from = after.saturating_sub(1).min(self.samples.len().saturating_sub(2));
        Some((self.samples.get(from)?, self.samples.get(from + 1)))
    }

    fn offset(&self, guest: u64, from: &Sample, to: &Sample) -> Option<i128> {
        if !self.interpolated {
            return Some(i128::from(from.offset));
        }
        let delta = i128::from(to.at_guest) - i128::from(from.at_guest);
        let change = i128::from(to.offset) - i128::from(from.offset);
        let risen = (i128::from(guest) - i128::from(from.at_guest)).checked_mul(change)?;
        // C's division: towards zero, half of delta added for rounding.
        Some(i128::from(from.offset) + (risen.checked_add(delta / 2)?) / delta)
    }

    /// Interpolated: what trace-cmd claims for its `ptp`. Else the numbers were read from KVM: how
    /// far trace-cmd's formula is from undoing KVM's, which is 0 for an unscaled TSC.
    pub(crate) fn bound_at(&self, guest: u64) -> u64 {
        if self.interpolated {
            return PTP_ACCURACY_TICKS;
        }
        let Some((from, Some(_))) = self.around(guest) else { return 0 };
        if (from.scaling, from.fraction) == (1, 0) {
            return 0;
        }
        let exact = || {
            let offset = from.offset.checked_neg()?;
            let tsc = GuestTsc::new(offset, Some(from.scaling), Some(from.fraction)).ok()?;
            let host = tsc.host_from_guest(guest)?;
            Some(host.abs_diff(self.host_at(guest)?) + tsc.bound_ticks())
        };
        exact().unwrap_or(u64::MAX)
    }

    /// The largest bound at the moments that were sampled.
    pub(crate) fn worst_bound(&self) -> u64 {
        self.samples.iter().map(|s| self.bound_at(s.at_guest)).max().unwrap_or(0)
    }

    pub(crate) fn first(&self) -> Option<&Sample> {
        self.samples.first()
    }

    /// Guest ticks per host tick.
    #[expect(clippy::cast_precision_loss, reason = "for printing only")]
    pub(crate) fn rate(&self) -> f64 {
        match self.samples.as_slice() {
            [s, _, ..] if s.scaling != 0 && s.fraction < 64 => {
                (1u128 << s.fraction) as f64 / s.scaling as f64
            }
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shift(samples: &[(u64, i64, u64, u32)], interpolated: bool) -> TimeShift {
        let mut shift = TimeShift::default();
        for &(at_guest, offset, scaling, fraction) in samples {
            shift.push(Sample { at_guest, offset, scaling, fraction }, interpolated);
        }
        shift
    }

    #[test]
    fn a_single_sample_is_not_scaled() {
        let one = shift(&[(100, -7, 3, 0)], true);
        assert_eq!((one.host_at(50), one.host_at(5)), (Some(43), None));
    }

    #[test]
    fn between_samples_the_earlier_one_applies() {
        let three = shift(&[(300, 30, 1, 0), (100, 10, 1, 0), (200, 20, 1, 0)], false);
        for (guest, host) in [(0, 10), (99, 109), (100, 110), (199, 209), (200, 220), (250, 270)] {
            assert_eq!(three.host_at(guest), Some(host), "{guest}");
        }
        // At and after the last, trace-cmd takes the last pair, whose first sample applies.
        assert_eq!((three.host_at(300), three.host_at(999)), (Some(320), Some(1_019)));
    }

    #[test]
    fn interpolation_rounds_as_c_does() {
        // delta 10, change 3: offset + (moved * 3 + 5) / 10, truncated.
        let two = shift(&[(100, 1_000, 1, 0), (110, 1_003, 1, 0)], true);
        let expected = [(100, 0), (101, 0), (102, 1), (105, 2), (110, 3), (120, 6), (90, -2)];
        for (guest, moved) in expected {
            let host = u64::try_from(i64::try_from(guest).unwrap() + 1_000 + moved).unwrap();
            assert_eq!(two.host_at(guest), Some(host), "{guest}");
        }
    }

    #[test]
    fn the_bound_owns_up_to_scaling_that_trace_cmd_does_not_undo() {
        // KVM: guest = host / 2 - 100. Host 1,000 is guest 400; trace-cmd says 400 / 2 + 100.
        let half = shift(&[(0, 100, 1 << 31, 32), (10, 100, 1 << 31, 32)], false);
        assert_eq!((half.host_at(400), half.bound_at(400)), (Some(300), 701));
        assert_eq!(shift(&[(0, 7, 1, 0), (10, 7, 1, 0)], false).bound_at(400), 0);
        assert_eq!(shift(&[(0, 7, 1, 0), (10, 8, 1, 0)], true).bound_at(400), PTP_ACCURACY_TICKS);
        assert_eq!(shift(&[(0, 7, 9, 99), (10, 8, 9, 99)], false).worst_bound(), u64::MAX);
    }

    #[test]
    fn scaling_comes_before_the_offset() {
        let half = shift(&[(0, 5, 1 << 31, 32), (10, 5, 1 << 31, 32)], false);
        assert_eq!(half.host_at(1_001), Some(505));
        assert_eq!(shift(&[], false).host_at(1), None);
        assert_eq!(shift(&[(0, 0, 1, 200), (1, 0, 1, 200)], false).host_at(1), None);
        assert_eq!(shift(&[(0, 0, u64::MAX, 0), (1, 0, 1, 0)], false).host_at(u64::MAX), None);
    }
}
