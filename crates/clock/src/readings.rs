//! A machine's kernel clock against its own TSC, from readings of both by one program.
//!
//! **What one reading says.** TSC, clock, TSC, read one after the other: the clock showed `ns` at
//! some tick in between. On an idle machine the two ticks are some 50 ns apart; a program that is
//! preempted between them makes a wide reading, which says little and does no harm.
//!
//! **What lies between two readings.** The kernel makes its nanoseconds of the TSC with a rate
//! that it changes when NTP says so: in steps, once a second at most (`second_overflow`,
//! `kernel/time/ntp.c`, Linux 6.18; daemons call `adjtimex` less often). So the map is a chain of
//! straight pieces, with at most one bend in any [`STEADY_NS`]. The estimate is the chord between
//! two readings. If the bend lies in this very gap, the rates before and after it are those of the
//! neighbouring gaps, and the chord is off by at most what either of them differs from it; if it
//! lies elsewhere, one of the neighbours still has the chord's rate. Either way the *smaller* of
//! the two differences is a bound, and a clock that is not steered pays the width of its readings
//! only:
//!
//! ```text
//!  tsc          ·  /      At the gap with the bend both neighbours differ from the chord; the truth
//!   │          · ./       (/) leaves the chord (.) by less than the smaller difference, which is
//!   │        ·./ /        where the neighbour's line (·) misses the other reading.
//!   │      ·/─o  
//!   └────────────── ns
//! ```
//!
//! Where readings are further apart than that (the reader did not get to run, the machine was
//! paused), the rate is taken to stay within [`WANDER_PPM`] of the chord's besides, as
//! between exchanges.

use crate::{
    curve::{Curve, Knot, MAX_SLOPE, Ray, keep_order},
    exchange::{DRIFT_LIMIT_PPM, WANDER_PPM},
};

/// TSC, clock, TSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) before: u64,
    pub(crate) ns: u64,
    pub(crate) after: u64,
}

/// A kernel clock's rate is changed at most once in this time.
pub(crate) const STEADY_NS: u64 = 900_000_000;
/// Between its steps the kernel still changes the multiplier by one to stay on course
/// (`timekeeping_adjust`, `kernel/time/timekeeping.c`): less than this.
const DITHER_PPM: i128 = 1;
/// Readings closer together say nothing of the rate: the tighter one is kept.
pub(crate) const APART_NS: u64 = 20_000_000;
/// Readings this many times wider than the middle one are left out.
pub(crate) const WIDE: u64 = 4;
/// A rate further off the usual one than this is none that NTP makes (`adjtimex` slews a clock by
/// a tenth at most): the clock was stepped, or the machine slept.
const STEP: f64 = 0.15;
/// Stamps at or above this are no clock's.
pub(crate) const MAX_STAMP: u64 = 1 << 62;

/// A stretch of readings that one chain of lines fits.
#[derive(Clone, Debug)]
pub(crate) struct Fitted {
    /// Nanoseconds to ticks.
    pub(crate) tsc_from_ns: Curve,
    /// Ticks to nanoseconds.
    pub(crate) ns_from_tsc: Curve,
    /// First and last: ticks.
    pub(crate) tsc_span: (u64, u64),
    /// First and last: nanoseconds.
    pub(crate) ns_span: (u64, u64),
    /// Readings it rests on.
    pub(crate) readings: usize,
}

/// What came of all readings of one machine between two boots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fit {
    /// By time; more than one if the clock stepped.
    pub(crate) pieces: Vec<Fitted>,
    /// Readings no clock can show.
    pub(crate) impossible: usize,
    /// How much the rate is proven to have changed, parts per million: at least this.
    pub(crate) spread_ppm: u32,
}

/// Fits readings in the order they were taken.
pub(crate) fn fit(readings: &[Reading]) -> Fit {
    let is_possible = |r: &&Reading| r.before <= r.after && r.after < MAX_STAMP && r.ns < MAX_STAMP;
    let mut possible: Vec<Reading> = readings.iter().filter(is_possible).copied().collect();
    possible.sort_by_key(|r| (r.before, r.after));
    let impossible = readings.len() - possible.len();
    let points = apart(&tight(&possible));
    let mut fit = Fit { impossible, ..Fit::default() };
    for run in unstepped(&points) {
        fit.spread_ppm = fit.spread_ppm.max(spread_ppm(run));
        fit.pieces.extend(fitted(run, Misses::Least));
    }
    fit
}

/// A reading as a point: the clock's nanosecond, the tick in the middle, how far off that may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) ns: u64,
    pub(crate) tsc: u64,
    /// Half the width, and a nanosecond's worth of ticks for the clock's rounding; ticks.
    pub(crate) half: i128,
}

/// Without those that were interrupted.
fn tight(readings: &[Reading]) -> Vec<Reading> {
    let width = |r: &Reading| r.after - r.before;
    let mut widths: Vec<u64> = readings.iter().map(width).collect();
    widths.sort_unstable();
    let Some(middle) = widths.get(widths.len() / 2) else { return Vec::new() };
    let limit = middle.saturating_mul(WIDE);
    readings.iter().filter(|r| width(r) <= limit).copied().collect()
}

/// Of readings close together the tightest. The two ends stay, whatever is near them: nothing is
/// known beyond.
fn apart(readings: &[Reading]) -> Vec<Point> {
    let mut kept: Vec<Reading> = Vec::with_capacity(readings.len());
    for reading in readings {
        let is_first_stays = kept.len() == 1;
        match kept.last_mut() {
            Some(last) if last.ns.abs_diff(reading.ns) < APART_NS => {
                if !is_first_stays && reading.after - reading.before < last.after - last.before {
                    *last = *reading;
                }
            }
            _ => kept.push(*reading),
        }
    }
    let is_further = |end: &&Reading| {
        kept.last().is_some_and(|last| end.ns.saturating_sub(last.ns) >= APART_NS / 4)
    };
    kept.extend(readings.last().filter(is_further).copied());
    let per_ns = ticks_per_ns(&kept);
    let point = |r: &Reading| Point {
        ns: r.ns,
        tsc: r.before + (r.after - r.before) / 2,
        half: i128::from((r.after - r.before).div_ceil(2)) + per_ns + 1,
    };
    kept.iter().map(point).collect()
}

/// Ticks in a nanosecond, rounded up.
fn ticks_per_ns(readings: &[Reading]) -> i128 {
    match (readings.first(), readings.last()) {
        (Some(a), Some(b)) if b.ns > a.ns => {
            i128::from(b.after.saturating_sub(a.before).div_ceil(b.ns - a.ns))
        }
        _ => 1,
    }
}

/// Ticks per nanosecond between two points; `None` if one of the clocks ran backwards or stood.
#[expect(clippy::cast_precision_loss, reason = "for plausibility and limits only")]
fn rate(a: &Point, b: &Point) -> Option<f64> {
    let (ns, tsc) = (b.ns.checked_sub(a.ns)?, b.tsc.checked_sub(a.tsc)?);
    (ns > 0 && tsc > 0).then(|| tsc as f64 / ns as f64)
}

/// The same, and how far it may be off.
#[expect(clippy::cast_precision_loss, reason = "for plausibility and limits only")]
pub(crate) fn rate_within(a: &Point, b: &Point) -> Option<(f64, f64)> {
    Some((rate(a, b)?, (a.half + b.half) as f64 / (b.ns - a.ns) as f64))
}

/// Cuts where the clock was stepped: where it ran backwards, or at a rate that is no clock's.
fn unstepped(points: &[Point]) -> Vec<&[Point]> {
    let rates: Vec<Option<(f64, f64)>> =
        points.windows(2).map(|w| rate_within(w.first()?, w.get(1)?)).collect();
    let mut known: Vec<f64> = rates.iter().flatten().map(|(rate, _)| *rate).collect();
    known.sort_unstable_by(f64::total_cmp);
    let usual = known.get(known.len() / 2).copied().unwrap_or(1.0);
    let is_step = |rate: &Option<(f64, f64)>| {
        rate.is_none_or(|(rate, off)| (rate - usual).abs() > usual * STEP + off)
    };
    let mut runs = Vec::new();
    let mut start = 0;
    for gap in rates.iter().enumerate().filter(|(_, rate)| is_step(rate)).map(|(gap, _)| gap) {
        runs.extend(points.get(start..=gap));
        start = gap + 1;
    }
    runs.extend(points.get(start..).filter(|rest| !rest.is_empty()));
    runs
}

/// Longer than any pause between two of the readings that are taken while recording.
const SET_OUT_NS: u64 = 1_000_000_000;

/// By how much the rate differs, at least, between the gap where it is lowest and the one where it
/// is highest.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
fn spread_ppm(points: &[Point]) -> u32 {
    let (mut at_least, mut at_most) = (f64::MIN, f64::MAX);
    let gaps = points.windows(2).filter_map(|w| rate_within(w.first()?, w.get(1)?));
    for (rate, off) in gaps {
        at_least = at_least.max(rate - off);
        at_most = at_most.min(rate + off);
    }
    ((at_least / at_most - 1.0) * 1e6).clamp(0.0, 1e6) as u32
}

/// Which of the two neighbours' lines bounds the chord of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misses {
    /// The better one: the clock's rate was changed in the gap, and nothing else.
    Least,
    /// The worse one: the clock may also have been set, by too little to be seen. Set by `s` where its
    /// rate changes, the clock leaves the chord by at most what the worse line misses: what the
    /// change of the rate hides of `s` on one side, it adds on the other.
    Largest,
}

pub(crate) fn fitted(points: &[Point], misses: Misses) -> Option<Fitted> {
    let (first, last) = (points.first()?, points.last()?);
    let slacks: Vec<i128> = (0..points.len().saturating_sub(1))
        .map(|gap| slack(points, gap, misses).unwrap_or(0))
        .collect();
    let slack = |gap: usize| slacks.get(gap).copied().unwrap_or(0);
    let (start, end) = (end_rate(points, true)?, end_rate(points, false)?);

    let mut knots: Vec<Knot> = points
        .iter()
        .map(|p| {
            let tsc = i128::from(p.tsc);
            Knot { guest: p.ns, low: tsc - p.half, high: tsc + p.half }
        })
        .collect();
    keep_order(&mut knots);
    let ticks = |gap| u64::try_from(slack(gap)).unwrap_or(u64::MAX);
    let tsc_from_ns = Curve::with_slacks(&knots, start.ray(), end.ray(), ticks)?;

    // The same points seen from the other side. What a tick is worth is taken from the rate at
    // which it is worth most.
    let worth = rates_of(points).reduce(f64::min).unwrap_or(start.low).min(start.low).min(end.low);
    let as_ns = |ticks: i128| ns_worth(ticks, worth);
    let mut knots: Vec<Knot> = points
        .iter()
        .map(|p| {
            let (ns, half) = (i128::from(p.ns), as_ns(p.half));
            Knot { guest: p.tsc, low: ns - half, high: ns + half }
        })
        .collect();
    keep_order(&mut knots);
    let ns = |gap| u64::try_from(as_ns(slack(gap))).unwrap_or(u64::MAX);
    let ns_from_tsc = Curve::with_slacks(&knots, start.inverse().ray(), end.inverse().ray(), ns)?;
    // A recorder reads the clocks once when it sets out, which may be long before it records.
    let (tsc_from_ns, ns_from_tsc) = if is_set_out(points) {
        (tsc_from_ns.with_early_start(), ns_from_tsc.with_early_start())
    } else {
        (tsc_from_ns, ns_from_tsc)
    };
    Some(Fitted {
        tsc_from_ns,
        ns_from_tsc,
        tsc_span: (first.tsc, last.tsc),
        ns_span: (first.ns, last.ns),
        readings: points.len(),
    })
}

/// Was the first reading taken more than a second before the second, with others soon after that?
fn is_set_out(points: &[Point]) -> bool {
    let gap = |at: usize| Some(points.get(at + 1)?.ns.saturating_sub(points.get(at)?.ns));
    gap(0).zip(gap(1)).is_some_and(|(first, second)| first > SET_OUT_NS && second < first / 4)
}

fn rates_of(points: &[Point]) -> impl Iterator<Item = f64> + '_ {
    points.windows(2).filter_map(|w| rate(w.first()?, w.get(1)?))
}

#[expect(clippy::cast_precision_loss, reason = "rounded up below")]
#[expect(clippy::cast_possible_truncation, reason = "below 2^63")]
fn ns_worth(ticks: i128, ticks_per_ns: f64) -> i128 {
    // A part in a thousand for the double's rounding and for knots that are not at gaps' ends.
    (ticks as f64 / ticks_per_ns * 1.001) as i128 + 2
}

/// How far the chord of a gap may be off between its ends, beyond what the ends are off; ticks.
/// `None`: no such gap.
fn slack(points: &[Point], gap: usize, misses: Misses) -> Option<i128> {
    let (a, b) = (points.get(gap)?, points.get(gap + 1)?);
    let before = points.get(..gap)?.iter().rev();
    let after = points.get(gap + 2..)?.iter();
    let reach = STEADY_NS.saturating_sub(b.ns - a.ns) / 2;
    let left = neighbour(a, before, reach);
    let right = neighbour(b, after, reach);
    let differs = [left.map(|l| difference(l, a, (a, b))), right.map(|r| difference(b, r, (a, b)))];
    let differs = differs.into_iter().flatten();
    let steered = match misses {
        Misses::Least => differs.min(),
        Misses::Largest => differs.max(),
    };
    let from = left.unwrap_or(a).ns;
    let until = right.unwrap_or(b).ns;
    let wander = if until - from <= STEADY_NS { DITHER_PPM } else { i128::from(WANDER_PPM) };
    let ppm = wander + if steered.is_none() { i128::from(DRIFT_LIMIT_PPM) } else { 0 };
    // A rate that is off by `w` one way over one half of the gap and the other way over the other
    // leaves the chord by a quarter of the gap times `2w`.
    let wandered = i128::from(b.tsc.abs_diff(a.tsc)) * ppm / 2_000_000 + 1;
    Some(steered.unwrap_or(0) + wandered)
}

/// The furthest point within reach of `end`, for the longer the line the better its rate is known;
/// the next one, if none is.
fn neighbour<'a>(
    end: &Point,
    mut others: impl Iterator<Item = &'a Point>,
    reach_ns: u64,
) -> Option<&'a Point> {
    let next = others.next()?;
    let near = others.take_while(|p| p.ns.abs_diff(end.ns) <= reach_ns);
    Some(near.last().unwrap_or(next))
}

/// How far the line through `c` and `d`, drawn across the gap from one of its ends, misses the
/// other end, at most; ticks.
fn difference(c: &Point, d: &Point, (a, b): (&Point, &Point)) -> i128 {
    let (base, length) = (i128::from(d.ns - c.ns), i128::from(b.ns - a.ns));
    let scaled = |ticks: i128| (ticks * length).div_euclid(base) + 1;
    let rise = i128::from(b.tsc) - i128::from(a.tsc);
    let line = scaled(i128::from(d.tsc) - i128::from(c.tsc));
    (rise - line).abs() + 1 + a.half + b.half + scaled(c.half + d.half)
}

/// What is known of the rate at an end: ticks per nanosecond (or the inverse).
#[derive(Clone, Copy, Debug)]
struct EndRate {
    low: f64,
    high: f64,
}

impl EndRate {
    fn ray(self) -> Ray {
        Ray { flattest: self.low, steepest: self.high }
    }

    fn inverse(self) -> EndRate {
        EndRate { low: 1.0 / self.high, high: 1.0 / self.low }
    }
}

/// Beyond the first or the last reading: the rate there, and what it may be once it is changed.
fn end_rate(points: &[Point], is_start: bool) -> Option<EndRate> {
    let (from, to) = match points {
        [] | [_] => return None,
        _ if is_start => {
            let first = points.first()?;
            (first, neighbour(first, points.iter().skip(1), STEADY_NS / 2)?)
        }
        _ => {
            let last = points.last()?;
            (neighbour(last, points.iter().rev().skip(1), STEADY_NS / 2)?, last)
        }
    };
    let (middle, off) = rate_within(from, to)?;
    let limit = middle * f64::from(DRIFT_LIMIT_PPM) / 1e6;
    let (low, high) = ((middle - off - limit).max(middle / 100.0), middle + off + limit);
    (high < MAX_SLOPE && 1.0 / low < MAX_SLOPE).then_some(EndRate { low, high })
}
