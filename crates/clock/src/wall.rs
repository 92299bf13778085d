//! The host's wall clock over trace time, from readings of CLOCK_REALTIME between two readings of
//! the trace clock.
//!
//! **What one reading proves.** Trace clock, wall clock, trace clock: the wall clock showed
//! `unix_ns` at some trace time in between.
//!
//! **Between two readings** it depends on the trace clock:
//! - `mono`, `boot` and `tai` run at the wall clock's own rate, whatever NTP does to it: the kernel
//!   makes all of them of one timekeeper and keeps the wall clock as an offset to `mono`
//!   (`wall_to_monotonic`, `kernel/time/timekeeping.c`, Linux 6.18). The offset changes only when
//!   the clock is set (`settimeofday`, `ADJ_SETOFFSET`, a leap second) or, against `mono`, when the
//!   machine was suspended. So one piece covers all readings between two steps.
//! - The TSC and `mono_raw` are not steered: the wall clock is slewed against them. The map is a
//!   chain of chords with the bounds of `readings.rs`; neighbours that one line fits to within
//!   [`TOLERANCE_NS`] become one piece.
//!
//! **Steps.** Readings that no offset (or no rate that a kernel makes) fits have a step between
//! them. Its moment is unknown, so no piece covers the time between these two readings. A step
//! that is smaller than the readings are wide is inside the bound: for clocks at the wall clock's
//! own rate the bound covers what *every* reading of the piece leaves possible, not only the
//! intersection of all; for slewed clocks it covers a step together with a change of the rate, except
//! between the first two and between the last two readings.
//!
//! **Outside of the readings** the outermost pieces reach up to [`REACH_NS`] further, as far as the
//! window does; a recorder reads the clocks more often than that. There they rest on the clock not
//! having been set.

use crate::{
    curve::{Curve, CurveSpan},
    readings::{APART_NS, MAX_STAMP, Misses, Point, STEADY_NS, WIDE, fitted, rate_within},
};
use transect_model::{table::WallClock, time::Span};

/// Pieces reach so far beyond the first and the last reading.
const REACH_NS: i64 = 1_000_000_000;
/// Chords of a steered clock are joined if one line misses their ends by no more than this.
const TOLERANCE_NS: u64 = 200;
/// `adjtimex` slews a clock by a tenth at most (`tick` ± 10 %, and 500 ppm each by `freq` and
/// `adjtime`): any other rate is a step.
const SLEW_LIMIT: f64 = 0.102;
/// The kernel changes a clock's multiplier by one now and then, to stay on course.
const DITHER: f64 = 2e-6;

/// How the wall clock runs against the trace clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WallRate {
    /// At the same rate, always.
    Same,
    /// NTP slews the wall clock, and not the trace clock.
    Slewed,
}

impl WallRate {
    /// By the trace clock's name in `trace_clock`.
    pub(crate) fn of_clock(name: &str) -> Self {
        match name {
            "mono" | "boot" | "tai" => WallRate::Same,
            _ => WallRate::Slewed,
        }
    }
}

/// The wall clock showed `unix_ns` at some trace time in `before..=after`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WallReading {
    before: i64,
    unix_ns: i64,
    after: i64,
}

impl WallReading {
    /// None if no clock can show these numbers.
    pub(crate) fn new(before: i64, unix_ns: i64, after: i64) -> Option<Self> {
        let limit = i64::try_from(MAX_STAMP).ok()?;
        let is_possible = 0 <= before && before <= after && after < limit;
        (is_possible && (0..limit).contains(&unix_ns)).then_some(WallReading {
            before,
            unix_ns,
            after,
        })
    }

    fn width(&self) -> i64 {
        self.after - self.before
    }

    /// What the reading leaves possible for wall clock minus trace time. The clock showed
    /// `unix_ns` for a nanosecond.
    fn offsets(&self) -> (i64, i64) {
        (self.unix_ns - self.after, self.unix_ns + 1 - self.before)
    }
}

/// A straight piece before it is cut to a window.
#[derive(Clone, Copy, Debug)]
struct Piece {
    ts: (i64, i64),
    unix: (i64, i64),
    error_ns: i64,
    step_ns: Option<i64>,
}

/// The rows for a window, from readings in any order.
pub(crate) fn rows(readings: &[WallReading], rate: WallRate, window: Span) -> Vec<WallClock> {
    let mut readings = tight(readings);
    readings.sort_by_key(|r| (r.before, r.after));
    let mut pieces = match rate {
        WallRate::Same => same_rate(&readings),
        WallRate::Slewed => slewed(&readings),
    };
    let (start, end) = (window.start.get(), window.end.get());
    if let (Some(first), Some(reading)) = (pieces.first_mut(), readings.first())
        && first.ts.0 <= reading.after.saturating_add(1)
    {
        first.reach_back(start.max(first.ts.0 - REACH_NS), rate);
    }
    if let (Some(last), Some(reading)) = (pieces.last_mut(), readings.last())
        && last.ts.1 >= reading.before.saturating_sub(1)
    {
        last.reach_on(end.min(last.ts.1 + REACH_NS), rate);
    }
    let mut rows: Vec<WallClock> =
        pieces.iter().filter_map(|piece| piece.row(start, end)).collect();
    if let Some(first) = rows.first_mut() {
        first.step_ns = None;
    }
    rows
}

impl Piece {
    /// Wall-clock time on the piece's line.
    fn unix_at(&self, ts: i64) -> i128 {
        let passed = i128::from(ts) - i128::from(self.ts.0);
        let dur = i128::from(self.ts.1) - i128::from(self.ts.0);
        let unix_dur = i128::from(self.unix.1) - i128::from(self.unix.0);
        i128::from(self.unix.0) + (passed * unix_dur).div_euclid(dur.max(1))
    }

    fn reach_back(&mut self, ts: i64, rate: WallRate) {
        if ts < self.ts.0
            && let Ok(unix) = i64::try_from(self.unix_at(ts))
        {
            self.error_ns += drift_ns(self.ts.0 - ts, rate);
            (self.ts.0, self.unix.0) = (ts, unix);
        }
    }

    fn reach_on(&mut self, ts: i64, rate: WallRate) {
        if ts > self.ts.1
            && let Ok(unix) = i64::try_from(self.unix_at(ts))
        {
            self.error_ns += drift_ns(ts - self.ts.1, rate);
            (self.ts.1, self.unix.1) = (ts, unix);
        }
    }

    /// The part of it in the window.
    fn row(&self, start: i64, end: i64) -> Option<WallClock> {
        let (from, until) = (self.ts.0.max(start), self.ts.1.min(end));
        if from >= until {
            return None;
        }
        let unix_ns = i64::try_from(self.unix_at(from)).ok()?;
        let unix_end = i64::try_from(self.unix_at(until)).ok()?;
        Some(WallClock {
            ts: from,
            dur: until - from,
            unix_ns,
            unix_dur: unix_end - unix_ns,
            error_ns: self.error_ns,
            step_ns: self.step_ns,
        })
    }
}

/// What a rate that may change by 1,000 ppm adds to the bound.
fn drift_ns(distance: i64, rate: WallRate) -> i64 {
    match rate {
        WallRate::Same => 0,
        WallRate::Slewed => distance / 1_000 + 1,
    }
}

/// Without those that were interrupted.
fn tight(readings: &[WallReading]) -> Vec<WallReading> {
    let mut widths: Vec<i64> = readings.iter().map(WallReading::width).collect();
    widths.sort_unstable();
    let Some(middle) = widths.get(widths.len() / 2) else { return Vec::new() };
    let limit = middle.saturating_add(1).saturating_mul(i64::try_from(WIDE).unwrap_or(i64::MAX));
    readings.iter().filter(|r| r.width() <= limit).copied().collect()
}

/// Readings that one offset fits.
struct Run {
    first: WallReading,
    last: WallReading,
    /// Possible for all of them.
    common: (i64, i64),
    /// Possible for one of them.
    all: (i64, i64),
}

impl Run {
    fn new(reading: WallReading) -> Self {
        let offsets = reading.offsets();
        Run { first: reading, last: reading, common: offsets, all: offsets }
    }

    /// Adds a reading if an offset fits it and all others.
    fn add(&mut self, reading: WallReading) -> bool {
        let (low, high) = reading.offsets();
        let common = (self.common.0.max(low), self.common.1.min(high));
        if common.0 > common.1 {
            return false;
        }
        self.common = common;
        self.all = (self.all.0.min(low), self.all.1.max(high));
        self.last = reading;
        true
    }

    fn offset(&self) -> i64 {
        self.common.0 + (self.common.1 - self.common.0) / 2
    }

    /// It holds from where the first reading was taken at the latest to where the last one was taken
    /// at the earliest.
    fn piece(&self, before: Option<&Run>) -> Piece {
        let offset = self.offset();
        let ts = (self.first.after, self.last.before);
        Piece {
            ts,
            unix: (ts.0 + offset, ts.1 + offset),
            error_ns: (self.all.1 - offset).max(offset - self.all.0),
            step_ns: before.map(|before| offset - before.offset()),
        }
    }
}

fn same_rate(readings: &[WallReading]) -> Vec<Piece> {
    let mut runs: Vec<Run> = Vec::new();
    for reading in readings {
        if !runs.last_mut().is_some_and(|run| run.add(*reading)) {
            runs.push(Run::new(*reading));
        }
    }
    let before = |at: usize| at.checked_sub(1).and_then(|at| runs.get(at));
    let pieces = runs.iter().enumerate().map(|(at, run)| run.piece(before(at)));
    // A run of one reading proves no time at all, except as the only one.
    pieces.filter(|piece| piece.ts.0 < piece.ts.1 || runs.len() == 1).map(Piece::ordered).collect()
}

impl Piece {
    /// The only reading: a piece of a nanosecond, which then reaches into the window.
    fn ordered(self) -> Self {
        if self.ts.0 < self.ts.1 {
            return self;
        }
        let offset = self.unix.0 - self.ts.0;
        let ts = (self.ts.0, self.ts.0 + 1);
        Piece { ts, unix: (ts.0 + offset, ts.1 + offset), ..self }
    }
}

fn slewed(readings: &[WallReading]) -> Vec<Piece> {
    let points = points(readings);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut before: Option<Curve> = None;
    for run in unstepped(&points) {
        let Some(fit) = fitted(run, Misses::Largest) else { continue };
        let curve = fit.ns_from_tsc;
        let step = before.as_ref().map(|before| {
            let (ts, unix) = curve.start();
            i64::try_from(i128::from(unix) - before.host_at(ts)).unwrap_or(i64::MAX)
        });
        let spans: Vec<CurveSpan> = curve.spans().collect();
        let own = joined(&spans).into_iter().enumerate();
        pieces.extend(
            own.map(|(at, piece)| Piece { step_ns: if at == 0 { step } else { Some(0) }, ..piece }),
        );
        before = Some(curve);
    }
    pieces
}

/// Of readings close together the tightest, unless the clock was set between them.
fn points(readings: &[WallReading]) -> Vec<Point> {
    let mut kept: Vec<WallReading> = Vec::with_capacity(readings.len());
    let apart = i64::try_from(APART_NS).unwrap_or(i64::MAX);
    for (at, reading) in readings.iter().enumerate() {
        // The two ends stay: nothing is proven beyond them.
        let is_end = at + 1 == readings.len();
        let is_second = kept.len() == 1;
        match kept.last_mut() {
            Some(last)
                if !is_end && reading.before - last.before < apart && agree(last, reading) =>
            {
                if !is_second && reading.width() < last.width() {
                    *last = *reading;
                }
            }
            Some(last) if reading.before <= last.before => {}
            _ => kept.push(*reading),
        }
    }
    let point = |r: &WallReading| {
        Some(Point {
            ns: u64::try_from(r.unix_ns).ok()?,
            tsc: u64::try_from(r.before + r.width() / 2).ok()?,
            half: i128::from(r.width() / 2 + r.width() % 2) + 2,
        })
    };
    kept.iter().filter_map(point).collect()
}

/// Can both have been read of a clock that was not set between them?
fn agree(a: &WallReading, b: &WallReading) -> bool {
    let (passed, unix) = (b.before - a.before, b.unix_ns - a.unix_ns);
    (unix - passed).abs() <= passed / 1_000 + a.width() + b.width() + 1
}

/// Cuts where the clock was set.
fn unstepped(points: &[Point]) -> Vec<&[Point]> {
    let rates: Vec<Option<(f64, f64)>> =
        points.windows(2).map(|w| rate_within(w.first()?, w.get(1)?)).collect();
    let mut runs = Vec::new();
    let mut start = 0;
    for gap in 0..rates.len() {
        if is_step(points, &rates, gap) {
            runs.extend(points.get(start..=gap));
            start = gap + 1;
        }
    }
    runs.extend(points.get(start..).filter(|rest| !rest.is_empty()));
    runs
}

/// Was the clock set in this gap between readings? A kernel changes the rate once in
/// [`STEADY_NS`] at most, so the rate over a gap lies between those of its neighbours.
fn is_step(points: &[Point], rates: &[Option<(f64, f64)>], gap: usize) -> bool {
    let Some((rate, off)) = rates.get(gap).copied().flatten() else { return true };
    if (rate - 1.0).abs() > SLEW_LIMIT + off {
        return true;
    }
    let neighbour = |at: Option<usize>| at.and_then(|at| rates.get(at).copied().flatten());
    let (left, right) = (neighbour(gap.checked_sub(1)), neighbour(gap.checked_add(1)));
    let (Some(left), Some(right)) = (left, right) else { return false };
    let ends = gap.checked_sub(1).and_then(|at| points.get(at)).zip(points.get(gap + 2));
    let is_near = ends.is_some_and(|(a, b)| b.tsc.saturating_sub(a.tsc) <= STEADY_NS);
    let slack = off + left.1 + right.1 + DITHER;
    is_near && (rate > left.0.max(right.0) + slack || rate < left.0.min(right.0) - slack)
}

/// Chords as few straight pieces.
fn joined(spans: &[CurveSpan]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = spans;
    while !rest.is_empty() {
        let count = fitting(rest).max(1);
        let (own, next) = rest.split_at(count);
        pieces.extend(piece_of(own));
        rest = next;
    }
    pieces
}

/// How many of the spans one line from the first one's start fits.
#[expect(clippy::cast_precision_loss, reason = "the deviation is computed exactly afterwards")]
fn fitting(spans: &[CurveSpan]) -> usize {
    let Some(first) = spans.first() else { return 0 };
    let (mut low, mut high) = (f64::MIN, f64::MAX);
    let (mut least, mut largest) = (first.bound, first.bound);
    for (at, span) in spans.iter().enumerate() {
        // A short time with a wide bound must not cost a long one its own.
        (least, largest) = (least.min(span.bound), largest.max(span.bound));
        if largest > least.saturating_mul(2).saturating_add(TOLERANCE_NS) {
            return at;
        }
        let dx = span.guest.1.saturating_sub(first.guest.0) as f64;
        // Off slope 1: the numbers themselves have more digits than a double.
        let passed = i128::from(span.guest.1) - i128::from(first.guest.0);
        let gained = (i128::from(span.host.1) - i128::from(first.host.0) - passed) as f64;
        let slope = gained / dx;
        if slope < low || slope > high {
            return at;
        }
        let tolerance = TOLERANCE_NS as f64 / dx;
        low = low.max(slope - tolerance);
        high = high.min(slope + tolerance);
    }
    spans.len()
}

fn piece_of(spans: &[CurveSpan]) -> Option<Piece> {
    let (first, last) = (spans.first()?, spans.last()?);
    let ts = (i64::try_from(first.guest.0).ok()?, i64::try_from(last.guest.1).ok()?);
    let piece = Piece { ts, unix: (first.host.0, last.host.1), error_ns: 0, step_ns: None };
    let deviation = |span: &CurveSpan| {
        let line = piece.unix_at(i64::try_from(span.guest.1).ok()?);
        Some((i128::from(span.host.1) - line).abs())
    };
    let worst = spans.iter().filter_map(deviation).max()?;
    let bound = spans.iter().map(|span| i128::from(span.bound)).max()?;
    // Two for the roundings of the line.
    let error_ns = i64::try_from(bound + worst + 2).ok()?;
    Some(Piece { error_ns, ..piece })
}
