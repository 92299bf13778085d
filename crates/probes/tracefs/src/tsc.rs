//! From TSC ticks to nanoseconds: the kernel's own factors where perf gives them, else measured.
#![allow(unsafe_code, reason = "reads the TSC and maps perf's self-monitoring page")]

use crate::posix::posix_now_ns;
use rustix::time::ClockId;
use std::{
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

/// The TSC, not before earlier loads and not after later ones (as the kernel's trace clock
/// `x86-tsc`, which is `rdtsc_ordered`).
#[cfg(target_arch = "x86_64")]
pub fn read() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 CPU has both instructions. RDTSC faults only if the process disabled
    // it for itself with prctl(PR_SET_TSC), which nothing here does.
    unsafe {
        _mm_lfence();
        let tsc = _rdtsc();
        _mm_lfence();
        tsc
    }
}

/// There is no TSC on this architecture; the clock that uses it is never chosen.
#[cfg(not(target_arch = "x86_64"))]
pub fn read() -> u64 {
    0
}

/// `ns = ((ticks * mult) >> shift) + offset_ns`, and how far to trust it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TscRate {
    /// Multiplier.
    pub mult: u32,
    /// Right shift, bits.
    pub shift: u32,
    /// Added at the end, ns; wraps.
    pub offset_ns: u64,
    /// Where it comes from.
    pub how: HowRated,
    /// How far the rate may be off, parts per million. 0: the kernel's own definition.
    pub error_ppm: f64,
}

/// Where a rate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HowRated {
    /// The factors the kernel itself uses (`perf_event_mmap_page`), as trace-cmd takes them.
    PerfPage,
    /// Compared with `CLOCK_MONOTONIC_RAW` over a stretch of time.
    Measured,
}

/// The kernel's factors, if it gives any. It gives none where its own clock is not the TSC:
/// in most guests (`arch_perf_update_userpage`, arch/x86/events/core.c).
pub fn rate_from_perf() -> Option<TscRate> {
    let page = PerfPage::open()?;
    let (mult, shift, zero) = page.factors()?;
    Some(TscRate { mult, shift, offset_ns: zero, how: HowRated::PerfPage, error_ppm: 0.0 })
}

const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_SW_DUMMY: u64 = 9;
/// `PERF_ATTR_SIZE_VER0`: every kernel takes it.
const ATTR_BYTES: usize = 64;
/// Bit 5 of the first flags word: `exclude_kernel`; works with any perf_event_paranoid.
const EXCLUDE_KERNEL: u64 = 1 << 5;
/// Offsets in `struct perf_event_mmap_page` (include/uapi/linux/perf_event.h), fixed ABI.
const LOCK_AT: usize = 8;
const CAPABILITIES_AT: usize = 40;
const TIME_SHIFT_AT: usize = 50;
const TIME_MULT_AT: usize = 52;
const TIME_ZERO_AT: usize = 64;
/// `cap_user_time_zero`.
const CAP_USER_TIME_ZERO: u64 = 1 << 4;

struct PerfPage {
    at: *mut libc::c_void,
    bytes: usize,
    _event: OwnedFd,
}

impl PerfPage {
    fn open() -> Option<Self> {
        let mut attr = [0u64; ATTR_BYTES / 8];
        attr[0] = u64::from_ne_bytes(pair(PERF_TYPE_SOFTWARE, u32::try_from(ATTR_BYTES).ok()?));
        attr[1] = PERF_COUNT_SW_DUMMY;
        attr[5] = EXCLUDE_KERNEL;
        // SAFETY: `attr` is a zero-extended perf_event_attr of the size it states and outlives
        // the call; the other arguments are integers (this process, any CPU, no group).
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), 0, -1, -1, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0)?;
        // SAFETY: a descriptor the kernel has just made and nothing else knows.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        let bytes = rustix::param::page_size();
        // SAFETY: a new shared read-only mapping at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        (at != libc::MAP_FAILED).then_some(PerfPage { at, bytes, _event: event })
    }

    fn at<T: Copy>(&self, offset: usize) -> T {
        debug_assert!(offset + size_of::<T>() <= self.bytes);
        // SAFETY: the offsets above lie inside the mapped page (at least 4096 bytes) and are
        // aligned for their types; volatile, because the kernel may write at any time.
        unsafe { ptr::read_volatile(self.at.cast::<u8>().add(offset).cast::<T>()) }
    }

    /// The factors, read consistently (the page's seqlock).
    fn factors(&self) -> Option<(u32, u32, u64)> {
        for _ in 0..1000 {
            let before: u32 = self.at(LOCK_AT);
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            let capabilities: u64 = self.at(CAPABILITIES_AT);
            let shift: u16 = self.at(TIME_SHIFT_AT);
            let mult: u32 = self.at(TIME_MULT_AT);
            let zero: u64 = self.at(TIME_ZERO_AT);
            std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
            if before.is_multiple_of(2) && before == self.at::<u32>(LOCK_AT) {
                let usable = capabilities & CAP_USER_TIME_ZERO != 0 && mult != 0 && shift < 64;
                return usable.then_some((mult, u32::from(shift), zero));
            }
        }
        None
    }
}

impl Drop for PerfPage {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `open`; nothing keeps a pointer into it.
        unsafe { libc::munmap(self.at, self.bytes) };
    }
}

/// Two u32 side by side in memory.
fn pair(first: u32, second: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&first.to_ne_bytes());
    bytes[4..].copy_from_slice(&second.to_ne_bytes());
    bytes
}

/// The TSC and `CLOCK_MONOTONIC_RAW` at the same moment. The raw clock is not slewed by NTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TscSample {
    /// TSC, in the middle of the tightest bracket.
    pub tsc: u64,
    /// Raw monotonic time, ns.
    pub raw_ns: u64,
    /// The bracket's width: the moment is known to within it, ticks.
    pub width_tsc: u64,
}

impl TscSample {
    /// Takes the tightest of a hundred brackets.
    pub fn take() -> Self {
        let bracket = || {
            let before = read();
            let raw_ns = posix_now_ns(ClockId::MonotonicRaw);
            let width_tsc = read().wrapping_sub(before);
            TscSample { tsc: before.wrapping_add(width_tsc / 2), raw_ns, width_tsc }
        };
        let mut best = bracket();
        for _ in 0..100 {
            let sample = bracket();
            if sample.width_tsc < best.width_tsc {
                best = sample;
            }
        }
        best
    }

    /// The rate between this sample and a later one; `None` if no time passed or the TSC went
    /// backwards. The offset makes the result agree with the raw monotonic clock at `self`.
    pub fn rate_until(&self, later: &TscSample) -> Option<TscRate> {
        let ticks = later.tsc.checked_sub(self.tsc).filter(|ticks| *ticks > 0)?;
        let ns = later.raw_ns.checked_sub(self.raw_ns).filter(|ns| *ns > 0)?;
        let (mult, shift) = factors(ticks, ns)?;
        let at_self = u64::try_from((u128::from(self.tsc) * u128::from(mult)) >> shift).ok()?;
        // Either end is off by at most half its bracket (and by one ns of the clock's own step).
        let half_widths = self.width_tsc / 2 + later.width_tsc / 2;
        let step_ticks = 2 * (ticks / ns + 1);
        #[expect(clippy::cast_precision_loss, reason = "an error bound of a few digits")]
        let error_ppm = (half_widths + step_ticks) as f64 / ticks as f64 * 1e6;
        Some(TscRate {
            mult,
            shift,
            offset_ns: self.raw_ns.wrapping_sub(at_self),
            how: HowRated::Measured,
            error_ppm,
        })
    }
}

/// The most precise 32-bit factor: `mult / 2^shift = ns / ticks`.
fn factors(ticks: u64, ns: u64) -> Option<(u32, u32)> {
    (0..=32u32).rev().find_map(|shift| {
        let scaled = (u128::from(ns) << shift) + u128::from(ticks / 2);
        let mult = u32::try_from(scaled / u128::from(ticks)).ok()?;
        (mult > 0).then_some((mult, shift))
    })
}

/// Measures the rate at once, over `span`: good to a few parts per million. A recording measures
/// again at its end, over its whole length.
pub fn measure(span: Duration) -> Option<TscRate> {
    let first = TscSample::take();
    std::thread::sleep(span);
    first.rate_until(&TscSample::take())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_measured_rate_predicts_the_raw_clock() {
        let rate = measure(Duration::from_millis(50)).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        let now = TscSample::take();
        let ns = (u128::from(now.tsc) * u128::from(rate.mult)) >> rate.shift;
        let ns = u64::try_from(ns).unwrap();
        let off = ns.wrapping_add(rate.offset_ns).abs_diff(now.raw_ns);
        // 50 ms further out at the stated error, plus brackets: generous for a busy machine.
        assert!(off < 100_000, "off by {off} ns, stated {} ppm", rate.error_ppm);
        assert!(rate.error_ppm < 1000.0);
    }

    #[test]
    fn perf_either_gives_usable_factors_or_none() {
        if let Some(rate) = rate_from_perf() {
            assert!(rate.mult > 0 && rate.shift < 64 && rate.error_ppm == 0.0);
        }
    }

    proptest! {
        #[test]
        fn factors_are_as_precise_as_32_bits_allow(hz in 1_000_000u64..100_000_000_000) {
            let (mult, shift) = factors(hz, 1_000_000_000).unwrap();
            let ns = (u128::from(hz) * u128::from(mult)) >> shift;
            let off = ns.abs_diff(1_000_000_000);
            // Below 1 GHz mult could use more than 32 bits of shift 32; then half its range is left.
            prop_assert!(off <= 100, "{hz} Hz: off by {off} ns per second");
        }
    }
}
