//! What readings of the wall clock promise, over simulated hosts: clocks that are set forward and
//! back, clocks that NTP slews, readers that are preempted.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers chosen by the tests"
)]

use proptest::prelude::*;
use transect_clock::{ClockGraph, ClockOptions, Evidence, evidence::RateSource};
use transect_model::{
    ids::MachineId, table::WallClock, time::Span, time::Timestamp, wall::WallMap,
};

const HOST: MachineId = MachineId(0);
const HOUR: i64 = 3_600_000_000_000;
const MS: i64 = 1_000_000;
const S: i64 = 1_000_000_000;
/// Trace time at which recording begins, and its length.
const START: i64 = 5_000 * S;
const LENGTH: i64 = 12 * S;
/// 2026-11-25 02:41:38 UTC.
const UNIX: i64 = 1_795_574_498 * S;

/// A wall clock over trace time: from each moment on another rate, after a step.
#[derive(Clone, Debug)]
struct Wall {
    /// Trace time, wall clock there, ppm off from then on.
    pieces: Vec<(i64, i128, i64)>,
}

impl Wall {
    fn new(changes: &[(i64, i64, i64)]) -> Self {
        let mut wall = Wall { pieces: vec![(0, i128::from(UNIX - START), 0)] };
        for (at, step, ppm) in changes {
            let unix = wall.exact(*at) + i128::from(*step);
            wall.pieces.push((*at, unix, *ppm));
        }
        wall
    }

    fn exact(&self, ts: i64) -> i128 {
        let (from, unix, ppm) = self.pieces[self.pieces.partition_point(|p| p.0 <= ts) - 1];
        let passed = i128::from(ts - from);
        unix + passed + (passed * i128::from(ppm)).div_euclid(1_000_000)
    }

    fn unix(&self, ts: i64) -> i64 {
        self.exact(ts) as i64
    }
}

/// A reading: ns since the one before, and how long before and after the clock was read.
type Taken = (i64, i64, i64);

fn readings(wall: &Wall, start: i64, taken: &[Taken]) -> Vec<Evidence> {
    let mut at = start;
    let mut out = Vec::new();
    for (gap, before, after) in taken {
        at += gap;
        out.push(Evidence::WallReading {
            machine: HOST,
            before: (at - before) as u64,
            unix_ns: wall.unix(at),
            after: (at + after) as u64,
        });
    }
    out
}

fn window(start: i64, end: i64) -> Span {
    Span { start: Timestamp::new(start), end: Timestamp::new(end) }
}

fn rows(clock: &str, readings: Vec<Evidence>, window: Span) -> Vec<WallClock> {
    let mut evidence = vec![Evidence::Reference { machine: HOST, clock: clock.to_owned() }];
    // Of a raw clock, a tick is a nanosecond here.
    evidence.push(Evidence::TscRate {
        machine: HOST,
        mult: 1,
        shift: 0,
        offset_ns: 0,
        how: RateSource::PerfMmap,
        error_ppm: 0.0,
    });
    evidence.extend(readings);
    ClockGraph::from_evidence(&evidence, ClockOptions::default()).unwrap().wall_clock(window)
}

/// Every reading the same distance apart, 60 ns wide.
fn regular(every: i64) -> Vec<Taken> {
    (0..LENGTH / every).map(|n| (if n == 0 { 0 } else { every }, 30, 30)).collect()
}

/// One in eight readings was interrupted for up to 20 ms, never two in a row.
fn taken() -> impl Strategy<Value = Vec<Taken>> {
    let jitter = 10i64..120;
    let one = (80i64..150, jitter.clone(), jitter, 0u8..8, 0i64..20_000_000);
    let count = (LENGTH / (80 * MS)) as usize;
    prop::collection::vec(one, count).prop_map(|all| {
        let mut was_wide = true;
        let taken = all.into_iter().map(|(gap, before, after, wide, by)| {
            let is_wide = wide == 0 && !was_wide;
            was_wide = is_wide;
            let gap = gap * MS;
            if is_wide { (gap, before + by, after + by / 3) } else { (gap, before, after) }
        });
        std::iter::once((0, 60, 60)).chain(taken).collect()
    })
}

/// Steps of up to an hour, of a second and of a few ns; at least two seconds apart.
fn steps() -> impl Strategy<Value = Vec<(i64, i64)>> {
    let size = prop_oneof![
        -HOUR..HOUR,
        Just(-HOUR),
        Just(HOUR),
        Just(S),
        Just(-100 * MS),
        -50 * MS..50 * MS,
        -2_000i64..2_000,
        -200i64..200,
    ];
    prop::collection::vec((2 * S..4 * S, size), 0..4)
}

fn changes(steps: &[(i64, i64)], ppm: &[i64]) -> Vec<(i64, i64, i64)> {
    let mut at = START;
    let of = |n: usize| ppm.get(n).copied().unwrap_or(0);
    let stepped = steps.iter().enumerate().map(|(n, (after, size))| {
        at += after;
        (at, *size, of(n))
    });
    stepped.collect()
}

/// Wherever a row claims a time, the truth is inside its bound.
fn check(wall: &Wall, rows: &[WallClock], span: Span) {
    let map = WallMap::new(rows.to_vec());
    let (start, end) = (span.start.get(), span.end.get());
    for row in rows {
        assert!(start <= row.ts && row.end() <= end && row.dur > 0, "{row:?} leaves {span:?}");
    }
    for pair in rows.windows(2) {
        assert!(pair[0].end() <= pair[1].ts, "{pair:?} overlap");
    }
    let mut moments: Vec<i64> = (0..4_000).map(|n| start + (end - start) / 4_000 * n).collect();
    // Around each change, where it is hardest.
    let near = [-MS, -1_000, -1, 0, 1, 1_000, MS];
    moments.extend(wall.pieces.iter().flat_map(|piece| near.map(|by| piece.0 + by)));
    for ts in moments {
        let Some(row) = map.row_at(ts) else { continue };
        let off = i128::from(row.unix_at(ts).unwrap()) - wall.exact(ts);
        assert!(off.abs() <= i128::from(row.error_ns), "{off} ns off at {ts}: {row:?}");
    }
}

fn covered(rows: &[WallClock]) -> i64 {
    rows.iter().map(|row| row.dur).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_clock_of_the_same_rate_is_inside_its_bound(steps in steps(), taken in taken()) {
        let wall = Wall::new(&changes(&steps, &[]));
        let end = START + taken.iter().map(|t| t.0).sum::<i64>();
        let rows = rows("mono", readings(&wall, START, &taken), window(START, end));
        check(&wall, &rows, window(START, end));
        // Each step costs the time between two readings (one may have been interrupted) at most.
        prop_assert!(covered(&rows) >= end - START - 320 * MS * (steps.len() as i64));
    }

    #[test]
    fn a_slewed_clock_is_inside_its_bound(
        steps in steps(),
        ppm in prop::collection::vec(-500i64..=500, 4),
        is_stepped in any::<bool>(),
        taken in taken(),
    ) {
        let steps: Vec<_> = steps.iter().map(|s| (s.0, if is_stepped { s.1 } else { 0 })).collect();
        let wall = Wall::new(&changes(&steps, &ppm));
        let end = START + taken.iter().map(|t| t.0).sum::<i64>();
        let rows = rows("x86-tsc", readings(&wall, START, &taken), window(START, end));
        check(&wall, &rows, window(START, end));
        prop_assert!(covered(&rows) >= end - START - 640 * MS * (steps.len() as i64));
    }

    #[test]
    fn a_tenth_faster_is_a_slew(ppm in prop_oneof![-100_000i64..-600, 600i64..100_000]) {
        let wall = Wall::new(&[(START + 4 * S, 0, ppm)]);
        let span = window(START, START + LENGTH);
        let rows = rows("mono_raw", readings(&wall, START, &regular(100 * MS)), span);
        check(&wall, &rows, span);
        prop_assert!(rows.iter().all(|row| row.step_ns.is_none_or(|step| step == 0)));
    }

    #[test]
    fn any_numbers_end_in_rows(
        all in prop::collection::vec((any::<u64>(), any::<i64>(), any::<u64>()), 0..40),
        is_mono in any::<bool>(),
        ends in (any::<i64>(), any::<i64>()),
    ) {
        let evidence = all.iter().map(|(before, unix_ns, after)| {
            let (before, unix_ns, after) = (*before, *unix_ns, *after);
            Evidence::WallReading { machine: HOST, before, unix_ns, after }
        });
        let clock = if is_mono { "mono" } else { "x86-tsc" };
        let span = window(ends.0.min(ends.1), ends.0.max(ends.1));
        rows(clock, evidence.collect(), span);
    }
}

/// Set back, set forward: both sides of each step are right, and the time between the two readings
/// around it is unknown.
#[test]
fn a_step_of_an_hour_has_two_sides() {
    for (clock, size) in
        [("mono", -HOUR), ("mono", HOUR), ("x86-tsc", -HOUR), ("x86-tsc", HOUR), ("boot", S)]
    {
        let at = START + 5 * S + 30 * MS;
        let wall = Wall::new(&[(at, size, 0)]);
        let span = window(START + 50 * MS, START + 11 * S);
        let rows = rows(clock, readings(&wall, START, &regular(100 * MS)), span);
        check(&wall, &rows, span);
        let [first, second] = rows.as_slice() else { panic!("{clock}: {rows:?}") };
        assert_eq!((first.ts, second.end()), (span.start.get(), span.end.get()));
        assert!(first.end() <= at && at <= second.ts, "{rows:?}");
        assert!(second.ts - first.end() <= 101 * MS);
        assert_eq!(first.step_ns, None);
        let step = second.step_ns.unwrap();
        assert!((step - size).abs() <= first.error_ns + second.error_ns, "{step}");
        if clock == "mono" {
            assert!(first.error_ns <= 70 && second.error_ns <= 70, "{rows:?}");
        }
    }
}

/// The bound of a clock that runs steadily is a few times the width of its readings.
#[test]
fn a_steady_slew_is_one_row() {
    let wall = Wall::new(&[(START - 100 * S, 0, 137)]);
    let span = window(START, START + 11 * S);
    let rows = rows("x86-tsc", readings(&wall, START, &regular(100 * MS)), span);
    check(&wall, &rows, span);
    let [row] = rows.as_slice() else { panic!("{rows:?}") };
    assert_eq!(row.unix_dur - row.dur, 11 * S / 1_000_000 * 137);
    assert!(row.error_ns < 1_000, "{row:?}");
}

/// A killed recorder's last events are later than its last reading; a window far from any reading
/// stays unknown.
#[test]
fn rows_reach_a_second_beyond_the_readings() {
    let wall = Wall::new(&[]);
    let taken = [(0, 30, 30), (100 * MS, 30, 30)];
    for clock in ["mono", "x86-tsc"] {
        let of = |start, end| rows(clock, readings(&wall, START, &taken), window(start, end));
        let near = of(START - 300 * MS, START + 400 * MS);
        check(&wall, &near, window(START - 300 * MS, START + 400 * MS));
        assert_eq!(covered(&near), 700 * MS);
        assert!(covered(&of(START - 5 * S, START + 5 * S)) <= 2_200 * MS);
        assert_eq!(of(START + 5 * S, START + 6 * S), []);
    }
}

#[test]
fn ticks_of_unknown_length_have_no_wall_clock() {
    let wall = Wall::new(&[]);
    let mut evidence = vec![Evidence::Reference { machine: HOST, clock: "x86-tsc".to_owned() }];
    evidence.extend(readings(&wall, START, &regular(100 * MS)));
    let graph = ClockGraph::from_evidence(&evidence, ClockOptions::default()).unwrap();
    assert_eq!(graph.wall_clock(window(START, START + S)), []);
}

#[test]
fn another_machines_wall_clock_is_not_the_hosts() {
    let wall = Wall::new(&[]);
    let of_guest = readings(&wall, START, &regular(100 * MS)).into_iter().map(|e| match e {
        Evidence::WallReading { before, unix_ns, after, .. } => {
            Evidence::WallReading { machine: MachineId(1), before, unix_ns, after }
        }
        other => other,
    });
    assert_eq!(rows("mono", of_guest.collect(), window(START, START + S)), []);
}
