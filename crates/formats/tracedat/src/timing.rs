//! From a stream's stamps to the times `trace-cmd report` prints.
//!
//! A trace.dat says four things about time: the clock its stamps come from; how TSC ticks become
//! nanoseconds (TSC2NSEC); for a guest's file, how guest stamps become host stamps (TIME_SHIFT,
//! per vCPU, several samples in time); and fixed offsets (DATE, OFFSET). trace-cmd applies them in
//! the order shift, scale, offset.
//!
//! Transect itself aligns streams by its clock graph from the raw stamps; the functions here say
//! *exactly* what trace-cmd would, wrap-around included (`lib/trace-cmd/trace-input.c`,
//! `timestamp_calc()`, trace-cmd 3.1.6 to 3.4), so that both can be compared to the nanosecond.

/// `ns = ticks × mult >> shift`; `offset_ns` is recorded but not applied by trace-cmd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tsc2Nsec {
    /// Multiplier.
    pub mult: u32,
    /// Right shift.
    pub shift: u32,
    /// Time at which the TSC was zero, by perf's clock.
    pub offset_ns: u64,
}

impl Tsc2Nsec {
    /// Nanoseconds of `ticks`, in trace-cmd's arithmetic (64 bits, upper and lower half apart).
    pub fn ns(&self, ticks: u64) -> u64 {
        let mult = u64::from(self.mult);
        let (low, high) = (ticks & 0xffff_ffff, ticks >> 32);
        let ns = (low.wrapping_mul(mult)).checked_shr(self.shift).unwrap_or(0);
        let left = 32u32.saturating_sub(self.shift);
        ns.wrapping_add(high.wrapping_mul(mult).wrapping_shl(left))
    }
}

/// One sample of a guest's clock against its host's: `host = (guest × scaling >> fraction) +
/// offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShiftSample {
    /// Guest stamp at which the sample holds.
    pub time: u64,
    /// Added to the scaled guest stamp.
    pub offset: i64,
    /// Multiplier of the guest stamp.
    pub scaling: u64,
    /// Bits of `scaling` behind the binary point.
    pub fraction: u64,
}

/// The TIME_SHIFT option of a guest's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeShift {
    /// TRACEID of the host's file.
    pub peer_trace_id: u64,
    /// Flags of the synchronisation protocol; bit 0: interpolate between samples.
    pub flags: u32,
    /// Samples per guest CPU, ascending in time.
    pub cpus: Vec<Vec<ShiftSample>>,
}

impl TimeShift {
    /// `TRACECMD_TSYNC_FLAG_INTERPOLATE`.
    pub const INTERPOLATE: u32 = 1;

    /// Host stamp of a guest stamp, as trace-cmd reckons it. CPUs without samples stay as they are.
    pub fn host_from_guest(&self, ts: u64, cpu: u32) -> u64 {
        let samples = usize::try_from(cpu).ok().and_then(|cpu| self.cpus.get(cpu));
        match samples.map_or(&[][..], Vec::as_slice) {
            [] => ts,
            // With one sample trace-cmd does not scale.
            [only] => ts.wrapping_add_signed(only.offset),
            samples => {
                let (from, to) = surrounding(samples, ts);
                self.apply(ts, from, to)
            }
        }
    }

    fn apply(&self, ts: u64, from: &ShiftSample, to: &ShiftSample) -> u64 {
        let mut offset = from.offset;
        if self.flags & Self::INTERPOLATE != 0 {
            let delta = to.time.cast_signed().wrapping_sub(from.time.cast_signed());
            let run = ts.cast_signed().wrapping_sub(from.time.cast_signed());
            let rise = run.wrapping_mul(to.offset.wrapping_sub(from.offset));
            let step = rise.wrapping_add(delta / 2).checked_div(delta).unwrap_or(0);
            offset = offset.wrapping_add(step);
        }
        let fraction = u32::try_from(from.fraction).unwrap_or(64);
        let scaled = ts.wrapping_mul(from.scaling).checked_shr(fraction).unwrap_or(0);
        scaled.wrapping_add_signed(offset)
    }
}

/// The two samples trace-cmd uses for a stamp: the last at or before it and its successor, at the
/// ends the outermost pair. (Its binary search may rest on the sample behind the stamp; then that
/// one counts. Reproduced, because the goal is the same nanosecond.)
fn surrounding(samples: &[ShiftSample], ts: u64) -> (&ShiftSample, &ShiftSample) {
    let last = samples.len() - 1;
    let pair = |at: usize| {
        let at = at.min(last);
        (&samples[at], &samples[(at + 1).min(last)])
    };
    if samples.len() == 2 || ts <= samples[0].time {
        return pair(0);
    }
    if ts >= samples[last].time {
        return pair(last - 1);
    }
    let (mut min, mut max) = (0usize, last);
    let mut mid = usize::midpoint(min, max);
    while min <= max {
        match ts.cmp(&samples[mid].time) {
            std::cmp::Ordering::Less => match mid.checked_sub(1) {
                Some(below) => max = below,
                None => break,
            },
            std::cmp::Ordering::Greater => min = mid + 1,
            std::cmp::Ordering::Equal => break,
        }
        mid = usize::midpoint(min, max);
    }
    pair(mid)
}

/// How one buffer's stamps are to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// The trace clock's name (`local`, `mono`, `x86-tsc`, `tsc2nsec`, …).
    pub clock: String,
    /// Ticks to nanoseconds, if the file says.
    pub tsc2nsec: Option<Tsc2Nsec>,
    /// Guest to host, if this is a guest's file.
    pub time_shift: Option<TimeShift>,
    /// Sum of the DATE and OFFSET options, nanoseconds.
    pub offset_ns: i64,
    /// trace-cmd forgets the shift for instance buffers; then [`Timing::report_ns`] must too.
    pub is_instance: bool,
}

impl Timing {
    /// The stamp `trace-cmd report -t` prints for raw stamp `ts` of `cpu`: nanoseconds if the clock
    /// counts them or TSC2NSEC is there, else ticks. (`--raw-ts` prints `ts` itself.)
    pub fn report_ns(&self, ts: u64, cpu: u32) -> u64 {
        let shifted = match &self.time_shift {
            Some(shift) if !self.is_instance => shift.host_from_guest(ts, cpu),
            _ => ts,
        };
        let scaled = match &self.tsc2nsec {
            Some(conversion) if conversion.mult != 0 => conversion.ns(shifted),
            _ => shifted,
        };
        scaled.wrapping_add_signed(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time: u64, offset: i64) -> ShiftSample {
        ShiftSample { time, offset, scaling: 1, fraction: 0 }
    }

    #[test]
    fn ticks_to_nanoseconds() {
        let conversion = Tsc2Nsec { mult: 12_924_312, shift: 25, offset_ns: 0 };
        // 2^40 ticks: exact product, no bit lost between the halves.
        let exact = (u128::from(1u64 << 40) * 12_924_312) >> 25;
        assert_eq!(u128::from(conversion.ns(1 << 40)), exact);
        // A shift no kernel uses: any value will do, but no panic.
        let _ = Tsc2Nsec { mult: u32::MAX, shift: 200, offset_ns: 0 }.ns(u64::MAX);
    }

    #[test]
    fn shifts_by_sample() {
        let shift = |cpus| TimeShift { peer_trace_id: 0, flags: 0, cpus };
        let of = |samples: &[ShiftSample], ts| shift(vec![samples.to_vec()]).host_from_guest(ts, 0);
        assert_eq!(shift(vec![]).host_from_guest(5, 0), 5);
        assert_eq!(of(&[], 5), 5);
        assert_eq!(of(&[sample(0, -3)], 5), 2);
        assert_eq!(of(&[sample(0, 10), sample(100, 20)], 500), 510);
        let three = [sample(0, 10), sample(100, 20), sample(200, 30)];
        assert_eq!(of(&three, 0), 10);
        assert_eq!(of(&three, 100), 120);
        assert_eq!(of(&three, 1000), 1020);
        let zero = [sample(5, 0); 4];
        assert_eq!(of(&zero, 5), 5);
    }

    #[test]
    fn interpolates_when_told() {
        let samples = vec![sample(0, 10), sample(100, 20)];
        let shift = TimeShift { peer_trace_id: 0, flags: 1, cpus: vec![samples] };
        assert_eq!(shift.host_from_guest(50, 0), 65);
        let same = vec![sample(7, 10), sample(7, 20)];
        let shift = TimeShift { peer_trace_id: 0, flags: 1, cpus: vec![same] };
        assert_eq!(shift.host_from_guest(50, 0), 60);
    }

    #[test]
    fn scaling_has_a_binary_point() {
        let half = ShiftSample { time: 0, offset: 1, scaling: 3, fraction: 1 };
        let shift = TimeShift { peer_trace_id: 0, flags: 0, cpus: vec![vec![half, half]] };
        assert_eq!(shift.host_from_guest(10, 0), 16);
    }
}
