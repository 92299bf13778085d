//! The two exact maps of the machine: ticks to nanoseconds, and a guest's TSC to its host's.
//!
//! Both are what hardware and kernel compute, to the last digit, in integers. Nothing here wraps:
//! a stamp whose image does not fit is `None`, which only damaged input reaches.

use crate::error::ClockError;

/// Ticks of a counter as nanoseconds: `((ticks * mult) >> shift) + offset_ns`, rounded down.
///
/// This is the kernel's `cyc2ns` and trace-cmd's `mul_u64_u32_shr` (`lib/trace-cmd/trace-input.c`,
/// 3.4), with a 128-bit product where they rely on a 64-bit one not to overflow: same results
/// wherever theirs are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate {
    mult: u32,
    shift: u32,
    offset_ns: i64,
}

impl TickRate {
    /// From the kernel's numbers. Errors: `mult` 0 or `shift` above 63.
    pub fn new(mult: u32, shift: u32, offset_ns: i64) -> Result<Self, ClockError> {
        if mult == 0 || shift > 63 {
            return Err(ClockError::BadRate { mult, shift });
        }
        Ok(TickRate { mult, shift, offset_ns })
    }

    /// From a frequency: the largest shift up to 32 (trace-cmd takes no larger one) whose
    /// multiplier fits, so the rate is within 2 parts in 10⁹. Errors: below 1 kHz or above 10 GHz.
    pub fn from_hz(hz: u64) -> Result<Self, ClockError> {
        if !(1_000..=10_000_000_000).contains(&hz) {
            return Err(ClockError::BadFrequency { hz });
        }
        for shift in (0..=32u32).rev() {
            let mult = ((1_000_000_000u128 << shift) + u128::from(hz / 2)) / u128::from(hz);
            if let Ok(mult) = u32::try_from(mult) {
                return TickRate::new(mult, shift, 0);
            }
        }
        Err(ClockError::BadFrequency { hz })
    }

    /// The nanosecond in which this tick lies, or `None` if it leaves 64 bits.
    #[inline]
    pub fn ns_from_ticks(self, ticks: u64) -> Option<i64> {
        let scaled = (u128::from(ticks) * u128::from(self.mult)) >> self.shift;
        i64::try_from(scaled).ok()?.checked_add(self.offset_ns)
    }

    /// How far apart, at most, the nanoseconds of two stamps `ticks` apart are (rounded up:
    /// `floor(a + d) - floor(a) <= ceil(d)`).
    pub fn ns_bound_from_ticks(self, ticks: u64) -> u64 {
        let product = u128::from(ticks) * u128::from(self.mult);
        let ceil = product.div_ceil(1u128 << self.shift);
        u64::try_from(ceil).unwrap_or(u64::MAX)
    }

    /// The first tick that lies in this nanosecond or later: the inverse, for asking "which stamp
    /// would show this time". `None` before tick 0 or beyond 64 bits.
    pub fn ticks_from_ns(self, ns: i64) -> Option<u64> {
        let scaled = u128::try_from(i128::from(ns) - i128::from(self.offset_ns)).ok()?;
        u64::try_from((scaled << self.shift).div_ceil(u128::from(self.mult))).ok()
    }

    /// Nanoseconds per tick, for printing and for limits, never for stamps.
    #[expect(clippy::cast_precision_loss, reason = "2^63 is exact in a double")]
    pub fn ns_per_tick(self) -> f64 {
        f64::from(self.mult) / (1u128 << self.shift) as f64
    }

    pub(crate) fn parts(self) -> (u32, u32) {
        (self.mult, self.shift)
    }
}

/// A guest's TSC as KVM makes it of the host's: `guest = ((host * ratio) >> frac_bits) + offset`.
///
/// Source: `kvm_scale_tsc` and `kvm_read_l1_tsc` in `arch/x86/kvm/x86.c` (Linux 6.18); the CPU does
/// the same at every RDTSC of the guest. Real counters do not wrap within the life of a machine, so
/// a result outside 0..2⁶⁴ is refused instead of wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestTsc {
    offset: i64,
    scaling: Option<Scaling>,
}

/// A fixed-point factor and its reciprocal, kept so that the hot path multiplies only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scaling {
    ratio: u64,
    frac_bits: u32,
    /// `floor(2^(frac_bits + recip_shift) / ratio)`, below 2⁶⁴.
    recip: u64,
    recip_shift: u32,
}

impl Scaling {
    fn new(ratio: u64, frac_bits: u32) -> Result<Self, ClockError> {
        if ratio == 0 || frac_bits > 63 {
            return Err(ClockError::BadScaling { ratio, frac_bits });
        }
        for recip_shift in (0..=64).rev() {
            let Some(power) = 1u128.checked_shl(frac_bits + recip_shift) else { continue };
            if let Ok(recip) = u64::try_from(power / u128::from(ratio)) {
                return Ok(Scaling { ratio, frac_bits, recip, recip_shift });
            }
        }
        Err(ClockError::BadScaling { ratio, frac_bits })
    }

    fn guest_from_host(self, host: u64) -> Option<u64> {
        u64::try_from((u128::from(host) * u128::from(self.ratio)) >> self.frac_bits).ok()
    }

    /// The first host tick at which the scaled counter shows `guest`: `ceil(guest * 2^frac / ratio)`.
    #[inline]
    fn host_from_guest(self, guest: u64) -> Option<u64> {
        let wanted = u128::from(guest) << self.frac_bits;
        let ratio = u128::from(self.ratio);
        // The reciprocal is rounded down, so this is never too large and, for ratios near one,
        // too small by one or two only.
        let guess = (u128::from(guest) * u128::from(self.recip)) >> self.recip_shift;
        // Cannot overflow: guess <= wanted / ratio.
        let missing = wanted - guess * ratio;
        let more = if missing == 0 {
            0
        } else if missing <= ratio {
            1
        } else {
            missing.div_ceil(ratio)
        };
        u64::try_from(guess + more).ok()
    }

    /// How many host ticks show the same guest tick, less one.
    fn bound_ticks(self) -> u64 {
        let same = (1u128 << self.frac_bits).div_ceil(u128::from(self.ratio));
        u64::try_from(same - 1).unwrap_or(u64::MAX)
    }
}

impl GuestTsc {
    /// From what debugfs shows. A ratio of exactly one is the same as none.
    /// Errors: ratio 0, more than 63 fraction bits, a ratio without fraction bits.
    pub fn new(
        offset: i64,
        ratio: Option<u64>,
        frac_bits: Option<u32>,
    ) -> Result<Self, ClockError> {
        let scaling = match (ratio, frac_bits) {
            (None, _) => None,
            (Some(ratio), None) => return Err(ClockError::BadScaling { ratio, frac_bits: 0 }),
            (Some(ratio), Some(frac_bits)) => {
                let scaling = Scaling::new(ratio, frac_bits)?;
                (ratio != 1u64 << frac_bits).then_some(scaling)
            }
        };
        Ok(GuestTsc { offset, scaling })
    }

    /// What the guest reads when the host's counter shows `host`.
    pub fn guest_from_host(self, host: u64) -> Option<u64> {
        let scaled = match self.scaling {
            None => host,
            Some(scaling) => scaling.guest_from_host(host)?,
        };
        scaled.checked_add_signed(self.offset)
    }

    /// The first host tick at which the guest reads `guest`.
    #[inline]
    pub fn host_from_guest(self, guest: u64) -> Option<u64> {
        let scaled = u64::try_from(i128::from(guest) - i128::from(self.offset)).ok()?;
        match self.scaling {
            None => Some(scaled),
            Some(scaling) => scaling.host_from_guest(scaled),
        }
    }

    /// How many host ticks later than [`Self::host_from_guest`] says the guest can have read the
    /// same value: 0 unless the guest's counter is slower than the host's.
    pub fn bound_ticks(self) -> u64 {
        self.scaling.map_or(0, Scaling::bound_ticks)
    }

    /// What must be subtracted from a guest stamp, if that is all there is to do.
    pub fn plain_offset(self) -> Option<i64> {
        self.scaling.is_none().then_some(self.offset)
    }

    /// Guest ticks per host tick, for printing.
    #[expect(clippy::cast_precision_loss, reason = "for printing only")]
    pub fn rate(self) -> f64 {
        match self.scaling {
            None => 1.0,
            Some(s) => s.ratio as f64 / (1u128 << s.frac_bits) as f64,
        }
    }

    /// Host ticks per guest tick, as a fraction.
    pub(crate) fn host_per_guest(self) -> (u128, u128) {
        self.scaling.map_or((1, 1), |s| (1u128 << s.frac_bits, u128::from(s.ratio)))
    }

    pub(crate) fn offset(self) -> i64 {
        self.offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What trace-cmd computes, from its description: the product in two 32-bit halves.
    fn by_halves(ticks: u64, mult: u32, shift: u32) -> Option<u64> {
        let (low, high) = (ticks & 0xffff_ffff, ticks >> 32);
        let upper = (high * u64::from(mult)).checked_mul(1u64.checked_shl(32 - shift)?)?;
        ((low * u64::from(mult)) >> shift).checked_add(upper)
    }

    #[test]
    fn frequencies_are_met_to_two_nanoseconds_a_second() {
        for hz in [1_000, 24_000_000, 1_000_000_000, 2_596_100_000, 10_000_000_000] {
            let ns = TickRate::from_hz(hz).unwrap().ns_from_ticks(hz).unwrap();
            assert!((999_999_998..=1_000_000_002).contains(&ns), "{hz} Hz: {ns}");
        }
        assert!(TickRate::from_hz(0).is_err() && TickRate::from_hz(u64::MAX).is_err());
        assert!(TickRate::new(1, 64, 0).is_err());
    }

    #[test]
    fn a_ratio_of_one_is_no_scaling() {
        let vmx = GuestTsc::new(-5, Some(1 << 48), Some(48)).unwrap();
        let svm = GuestTsc::new(-5, Some(1 << 32), Some(32)).unwrap();
        assert_eq!((vmx.plain_offset(), svm.plain_offset()), (Some(-5), Some(-5)));
        assert!(GuestTsc::new(0, Some(0), Some(48)).is_err());
        assert!(GuestTsc::new(0, Some(1), None).is_err());
        assert!(GuestTsc::new(0, Some(1), Some(64)).is_err());
    }

    #[test]
    fn the_smallest_offset_is_undone_without_overflow() {
        let tsc = GuestTsc::new(i64::MIN, None, None).unwrap();
        assert_eq!(tsc.host_from_guest(7), Some(7 + (1 << 63)));
        assert_eq!(tsc.host_from_guest(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn nanoseconds_are_those_of_trace_cmd(
            ticks in any::<u64>(), mult in 1u32.., shift in 1u32..=32, cut in 0u32..64,
        ) {
            let ticks = ticks >> cut;
            let rate = TickRate::new(mult, shift, 0).unwrap();
            let theirs = by_halves(ticks, mult, shift).and_then(|ns| i64::try_from(ns).ok());
            prop_assert_eq!(rate.ns_from_ticks(ticks), theirs);
        }

        #[test]
        fn ticks_and_nanoseconds_go_round(
            ticks in 0u64..1 << 52, mult in 1u32 << 16.., offset in -1i64 << 40..1 << 40,
        ) {
            let rate = TickRate::new(mult, 32, offset).unwrap();
            let ns = rate.ns_from_ticks(ticks).unwrap();
            let first = rate.ticks_from_ns(ns).unwrap();
            prop_assert!(first <= ticks);
            prop_assert_eq!(rate.ns_from_ticks(first).unwrap(), ns);
            prop_assert!(first == 0 || rate.ns_from_ticks(first - 1).unwrap() < ns);
        }

        #[test]
        fn a_bound_in_ticks_covers_the_nanoseconds(
            ticks in 0u64..1 << 52, off in 0u64..1 << 30, mult in 1u32.., shift in 16u32..=40,
        ) {
            let rate = TickRate::new(mult, shift, 0).unwrap();
            let apart = rate.ns_from_ticks(ticks + off).zip(rate.ns_from_ticks(ticks));
            let Some((later, earlier)) = apart else { return Ok(()) };
            prop_assert!((later - earlier).unsigned_abs() <= rate.ns_bound_from_ticks(off));
        }

        #[test]
        fn an_unscaled_guest_tsc_goes_round_exactly(host in any::<u64>(), offset in any::<i64>()) {
            let tsc = GuestTsc::new(offset, None, None).unwrap();
            if let Some(guest) = tsc.guest_from_host(host) {
                prop_assert_eq!(tsc.host_from_guest(guest), Some(host));
            }
        }

        #[test]
        fn a_scaled_guest_tsc_goes_round_within_its_bound(
            host in 0u64..1 << 60, offset in -1i64 << 60..1 << 60,
            factor in 0.01f64..100.0, vmx in any::<bool>(),
        ) {
            let frac_bits = if vmx { 48 } else { 32 };
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
            #[expect(clippy::cast_precision_loss, reason = "any ratio near it will do")]
            let ratio = (factor * (1u64 << frac_bits) as f64) as u64;
            let tsc = GuestTsc::new(offset, Some(ratio), Some(frac_bits)).unwrap();
            if let Some(guest) = tsc.guest_from_host(host) {
                let first = tsc.host_from_guest(guest).unwrap();
                prop_assert!(first <= host && host - first <= tsc.bound_ticks(), "{first} {host}");
                prop_assert_eq!(tsc.guest_from_host(first), Some(guest));
                if first > 0 {
                    prop_assert_ne!(tsc.guest_from_host(first - 1), Some(guest));
                }
            }
        }

        #[test]
        fn any_ratio_and_stamp_is_answered(
            guest in any::<u64>(), offset in any::<i64>(), ratio in any::<u64>(), cut in 0u32..64,
            frac_bits in 0u32..70,
        ) {
            if let Ok(tsc) = GuestTsc::new(offset, Some(ratio >> cut), Some(frac_bits)) {
                if let Some(host) = tsc.host_from_guest(guest) {
                    let there = tsc.guest_from_host(host).map(i128::from);
                    prop_assert!(there.is_none_or(|there| there >= i128::from(guest)));
                }
                let _ = tsc.bound_ticks();
            }
        }
    }
}
