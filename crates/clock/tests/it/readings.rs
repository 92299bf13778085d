//! What readings of a machine's two clocks promise, over simulated machines: kernels that steer
//! their clocks, readers that are preempted, guests at an offset or at another rate.
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
    ids::{CpuId, MachineId, VcpuId},
    time::Timestamp,
};

const HOST: MachineId = MachineId(0);
const GUEST: MachineId = MachineId(1);
const NESTED: MachineId = MachineId(2);
/// Where the host's TSC stands when recording begins.
const START: u64 = 1 << 46;
const TICKS_PER_S: u64 = 2_600_000_000;
const SECONDS: u64 = 8;

/// A kernel's clock: nanoseconds of its machine's TSC, at a rate that is changed now and then.
#[derive(Clone, Debug)]
struct Steered {
    /// From this tick on: nanoseconds there, nanoseconds per tick; both with 48 fraction bits.
    pieces: Vec<(u64, i128, i128)>,
}

const FRAC_BITS: u32 = 48;

fn rate(ppm: i64) -> i128 {
    let ns_per_million_s = i128::from(1_000_000 + ppm) * 1_000_000_000;
    (ns_per_million_s << FRAC_BITS) / (i128::from(TICKS_PER_S) * 1_000_000)
}

impl Steered {
    /// Steps are (ticks after the one before, ppm off from then on).
    fn new(start_tick: u64, start_ns: u64, steps: &[(u64, i64)]) -> Self {
        let first = (start_tick, i128::from(start_ns) << FRAC_BITS, rate(0));
        let mut clock = Steered { pieces: vec![first] };
        let mut at = start_tick;
        for (after, ppm) in steps {
            at += after;
            let ns = clock.exact(at);
            clock.pieces.push((at, ns, rate(*ppm)));
        }
        clock
    }

    fn exact(&self, tick: u64) -> i128 {
        let (from, ns, rate) = self.pieces[self.pieces.partition_point(|p| p.0 <= tick) - 1];
        ns + i128::from(tick - from) * rate
    }

    /// What a program reads.
    fn ns(&self, tick: u64) -> u64 {
        (self.exact(tick) >> FRAC_BITS) as u64
    }
}

/// One reading: ms since the one before, ticks before and after the clock was read.
type Taken = (u64, u64, u64);

/// Readings of a clock by a program on its machine, whose TSC starts at `start`.
fn readings(machine: MachineId, clock: &Steered, start: u64, taken: &[Taken]) -> Vec<Evidence> {
    let mut tick = start;
    let mut out = Vec::new();
    for (gap_ms, before, after) in taken {
        tick += gap_ms * TICKS_PER_S / 1_000;
        let evidence = Evidence::TscReading {
            machine,
            clock: "mono".to_owned(),
            tsc_before: tick - before,
            ns: clock.ns(tick),
            tsc_after: tick + after,
        };
        out.push(evidence);
    }
    out
}

fn reference(clock: &str) -> Evidence {
    Evidence::Reference { machine: HOST, clock: clock.to_owned() }
}

fn source(machine: MachineId, clock: &str) -> Evidence {
    Evidence::SourceClock { machine, clock: clock.to_owned() }
}

fn offset(machine: MachineId, parent: MachineId, offset: i64, at_host: u64) -> Evidence {
    let vcpu = VcpuId(0);
    Evidence::TscOffset { machine, parent, vcpu, offset, ratio: None, frac_bits: None, at_host }
}

fn graph(evidence: &[Evidence]) -> ClockGraph {
    ClockGraph::from_evidence(evidence, ClockOptions::default()).unwrap()
}

/// Steps of ±500 ppm at least a second apart.
fn steps() -> impl Strategy<Value = Vec<(u64, i64)>> {
    prop::collection::vec((TICKS_PER_S..3 * TICKS_PER_S, -500i64..=500), 0..8)
}

/// Every 80 to 150 ms; one in eight readings was interrupted for up to 20 ms, never two in a row.
fn taken() -> impl Strategy<Value = Vec<Taken>> {
    let count = (SECONDS * 1_000 / 80) as usize;
    let jitter = 10u64..120;
    let one = (80u64..150, jitter.clone(), jitter, 0u8..8, 0u64..50_000_000);
    prop::collection::vec(one, count).prop_map(|all| {
        let mut was_wide = true;
        let taken = all.into_iter().map(|(gap, before, after, wide, by)| {
            let is_wide = wide == 0 && !was_wide;
            was_wide = is_wide;
            if is_wide { (gap, before + by, after + by / 3) } else { (gap, before, after) }
        });
        std::iter::once((0, 60, 60)).chain(taken).collect()
    })
}

/// The guest's TSC behind the host's.
const OFFSET: i64 = -(1 << 45);
const GUEST_START: u64 = START - (1 << 45);

struct Pair {
    host: Steered,
    guest: Steered,
    host_readings: Vec<Evidence>,
    guest_readings: Vec<Evidence>,
}

impl Pair {
    fn new(steps: [&[(u64, i64)]; 2], taken: [&[Taken]; 2]) -> Self {
        // Kernels had run for a while: their steps do not begin with the recording.
        let host = Steered::new(START - TICKS_PER_S, 7_000_000_000_000, steps[0]);
        let guest = Steered::new(GUEST_START - TICKS_PER_S / 3, 90_000_000_000, steps[1]);
        let host_readings = readings(HOST, &host, START, taken[0]);
        let guest_readings = readings(GUEST, &guest, GUEST_START, taken[1]);
        Pair { host, guest, host_readings, guest_readings }
    }

    /// Moments within the recording: the host's ticks.
    fn moments(&self) -> impl Iterator<Item = u64> {
        (START + 1..START + (SECONDS - 2) * TICKS_PER_S).step_by(33_333_331)
    }
}

/// The worst bound met.
fn check(
    graph: &ClockGraph,
    machine: MachineId,
    stamps_and_truths: impl Iterator<Item = (u64, u64)>,
) -> Result<u64, TestCaseError> {
    let mut worst = 0;
    let mut stream = graph.converter(machine, CpuId(0)).unwrap();
    let mut last = i64::MIN;
    for (stamp, truth) in stamps_and_truths {
        let (ts, bound) = stream.trace_from_source(Timestamp::new(stamp)).unwrap();
        let off = ts.get().abs_diff(truth as i64);
        prop_assert!(off <= bound.0, "at {stamp}: {ts} is off by {off}, bound {}", bound.0);
        let followed = stream.follow(Timestamp::new(stamp)).unwrap();
        prop_assert_eq!(ts, followed);
        prop_assert!(followed.get() >= last);
        last = followed.get();
        worst = worst.max(bound.0);
    }
    prop_assert!(worst <= graph.error_bound(machine).unwrap().0 + 8);
    Ok(worst)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_guest_in_mono_meets_its_host_in_mono(
        host in steps(), guest in steps(), on_host in taken(), in_guest in taken(),
    ) {
        let pair = Pair::new([&host, &guest], [&on_host, &in_guest]);
        let evidence: Vec<Evidence> = [reference("mono"), source(GUEST, "mono")].into_iter()
            .chain(pair.host_readings.clone())
            .chain([offset(GUEST, HOST, OFFSET, pair.host.ns(START + 5))])
            .chain(pair.guest_readings.clone())
            .collect();
        let graph = graph(&evidence);
        prop_assert!(graph.notes().is_empty(), "{:?}", graph.notes());
        let edges = graph.edges();
        prop_assert_eq!((edges.len(), edges[0].method.as_str()), (1, "tsc_offset"));
        prop_assert_eq!((edges[0].from_clock.as_str(), edges[0].to_clock.as_str()), ("mono", "mono"));
        prop_assert_eq!(edges[0].error_bound_ns, graph.error_bound(GUEST).unwrap().0);
        let truths = pair.moments().map(|tick| {
            (pair.guest.ns(tick.checked_add_signed(OFFSET).unwrap()), pair.host.ns(tick))
        });
        let worst = check(&graph, GUEST, truths)?;
        // A step of 1,000 ppm in a gap of 300 ms between readings: up to 150 us off its chord.
        prop_assert!(worst < 330_000, "useless bound {worst}");
        // The host's own stamps are trace time.
        let same = pair.moments().map(|tick| (pair.host.ns(tick), pair.host.ns(tick)));
        prop_assert_eq!(check(&graph, HOST, same)?, 0);
    }

    #[test]
    fn clocks_that_nobody_steers_are_bound_by_the_readings_alone(
        ppm in -400i64..400, on_host in taken(), in_guest in taken(),
    ) {
        let pair = Pair::new([&[(1, ppm)], &[]], [&on_host, &in_guest]);
        let evidence: Vec<Evidence> = [reference("mono"), source(GUEST, "mono")].into_iter()
            .chain(pair.host_readings.clone())
            .chain([offset(GUEST, HOST, OFFSET, pair.host.ns(START + 5))])
            .chain(pair.guest_readings.clone())
            .collect();
        let graph = graph(&evidence);
        let truths = pair.moments().map(|tick| {
            (pair.guest.ns(tick.checked_add_signed(OFFSET).unwrap()), pair.host.ns(tick))
        });
        let worst = check(&graph, GUEST, truths)?;
        // Readings are up to 240 ticks (92 ns) wide.
        prop_assert!(worst < 1_000, "{worst}");
    }

    #[test]
    fn a_guest_in_mono_meets_a_host_in_ticks(guest in steps(), in_guest in taken()) {
        let pair = Pair::new([&[], &guest], [&[], &in_guest]);
        let hz = Evidence::TscRate {
            machine: HOST, mult: 1_651_910_498, shift: 32, offset_ns: 0,
            how: RateSource::PerfMmap, error_ppm: 0.0,
        };
        let evidence: Vec<Evidence> = [reference("x86-tsc"), hz, source(GUEST, "mono")].into_iter()
            .chain([offset(GUEST, HOST, OFFSET, START)])
            .chain(pair.guest_readings.clone())
            .collect();
        let graph = graph(&evidence);
        prop_assert!(graph.edges()[1].to_clock == "x86-tsc");
        let host_ns = |tick: u64| ((u128::from(tick) * 1_651_910_498) >> 32) as u64;
        let truths = pair.moments().map(|tick| {
            (pair.guest.ns(tick.checked_add_signed(OFFSET).unwrap()), host_ns(tick))
        });
        check(&graph, GUEST, truths)?;
    }

    #[test]
    fn a_guest_in_ticks_meets_a_host_in_mono(host in steps(), on_host in taken()) {
        let pair = Pair::new([&host, &[]], [&on_host, &[]]);
        let evidence: Vec<Evidence> = [reference("mono"), source(GUEST, "x86-tsc")].into_iter()
            .chain([offset(GUEST, HOST, OFFSET, pair.host.ns(START + 5))])
            .chain(pair.host_readings.clone())
            .collect();
        let graph = graph(&evidence);
        prop_assert!(graph.edges()[0].method == "tsc_offset");
        let truths = pair.moments().map(|tick| {
            (tick.checked_add_signed(OFFSET).unwrap(), pair.host.ns(tick))
        });
        check(&graph, GUEST, truths)?;
    }

    #[test]
    fn a_nested_guest_does_not_pay_for_the_clock_between(
        host in steps(), nested in steps(), on_host in taken(), in_nested in taken(),
    ) {
        let pair = Pair::new([&host, &nested], [&on_host, &in_nested]);
        // The machine in between keeps a clock too, and read it badly.
        let between = Steered::new(START, 1_000_000, &[]);
        let bad: Vec<Taken> = (0..60).map(|_| (100, 90_000, 90_000)).collect();
        let nested: Vec<Evidence> = pair.guest_readings.iter().cloned().map(|mut record| {
            if let Evidence::TscReading { machine, .. } = &mut record { *machine = NESTED }
            record
        }).collect();
        let evidence: Vec<Evidence> =
            [reference("mono"), source(GUEST, "mono"), source(NESTED, "mono")].into_iter()
            .chain(pair.host_readings.clone())
            .chain(readings(GUEST, &between, START + 1_000_000, &bad))
            .chain(nested)
            .chain([offset(GUEST, HOST, 1_000, pair.host.ns(START + 5)),
                    offset(NESTED, GUEST, OFFSET - 1_000, 2_000_000)])
            .collect();
        let graph = graph(&evidence);
        let truths = pair.moments().map(|tick| {
            (pair.guest.ns(tick.checked_add_signed(OFFSET).unwrap()), pair.host.ns(tick))
        });
        check(&graph, NESTED, truths)?;
        prop_assert!(graph.error_bound(GUEST).unwrap().0 > 30_000);
    }

    #[test]
    fn any_rubbish_ends(
        raw in prop::collection::vec((0u32..2, any::<u64>(), any::<u64>(), any::<u64>(), 0u32..64), 0..60),
        stamp in any::<u64>(),
    ) {
        let evidence: Vec<Evidence> = [reference("mono"), offset(GUEST, HOST, -5, 1)].into_iter()
            .chain(raw.iter().map(|&(machine, a, b, c, cut)| Evidence::TscReading {
                machine: MachineId(machine), clock: "mono".to_owned(),
                tsc_before: a >> cut, ns: b >> cut, tsc_after: (a >> cut).saturating_add(c >> cut),
            }))
            .collect();
        let graph = graph(&evidence);
        graph.edges();
        graph.unused_edges();
        if let Ok(mut converter) = graph.converter(GUEST, CpuId(0)) {
            let stamps = [0, 1, stamp >> 30, stamp >> 8, stamp, u64::MAX];
            let at = stamps.map(|s| converter.follow(Timestamp::new(s)));
            let _ = stamps.map(|s| converter.trace_from_source(Timestamp::new(s)));
            let there: Vec<i64> = at.iter().flatten().map(|t| t.get()).collect();
            prop_assert!(!stamps.is_sorted() || converter.pieces() > 1 || there.is_sorted());
        }
    }
}

/// Every 100 ms, 100 ticks wide.
fn steadily(seconds: u64) -> Vec<Taken> {
    std::iter::once((0, 50, 50)).chain((0..seconds * 10).map(|_| (100, 50, 50))).collect()
}

#[test]
fn a_guest_that_is_booted_again_has_two_pieces() {
    let pair = Pair::new([&[], &[]], [&steadily(20), &steadily(4)]);
    // Twelve seconds into the recording, its TSC and its clock start over.
    let second = Steered::new(0, 0, &[]);
    let offset_2 = -((START + 12 * TICKS_PER_S) as i64);
    let again = readings(GUEST, &second, 3 * TICKS_PER_S, &steadily(4));
    let at = |s: u64| pair.host.ns(START + s * TICKS_PER_S);
    let mut evidence = vec![reference("mono"), source(GUEST, "mono")];
    evidence.extend(pair.host_readings.clone());
    evidence.push(offset(GUEST, HOST, OFFSET, at(1)));
    evidence.extend(pair.guest_readings.clone());
    evidence.push(offset(GUEST, HOST, OFFSET, at(10)));
    evidence.push(offset(GUEST, HOST, offset_2, at(13)));
    evidence.push(Evidence::ClockRestart { machine: GUEST, at_host: at(14) });
    evidence.extend(again);
    let graph = graph(&evidence);
    assert!(graph.notes().is_empty(), "{:?}", graph.notes());
    let second_ts = |guest_s: u64| {
        let mut stream = graph.converter_of_boot(GUEST, CpuId(0), 1).unwrap();
        let stamp = second.ns(guest_s * TICKS_PER_S);
        let alone = stream.trace_from_source(Timestamp::new(stamp)).unwrap().0;
        assert_eq!(stream.follow(Timestamp::new(stamp)).unwrap(), alone);
        alone.get()
    };
    assert!(second_ts(4).abs_diff(at(16) as i64) < 500, "{} {}", second_ts(4), at(16));
    // One stream with both: it runs backwards in between.
    let mut stream = graph.converter(GUEST, CpuId(0)).unwrap();
    assert_eq!(stream.pieces(), 2);
    let first = pair.guest.ns(GUEST_START + 2 * TICKS_PER_S);
    let mut near = |stamp: u64, ts: u64| {
        let got = stream.follow(Timestamp::new(stamp)).unwrap().get();
        assert!(got.abs_diff(ts as i64) < 500, "{stamp}: {got}, expected {ts}");
    };
    near(first, at(2));
    near(second.ns(3 * TICKS_PER_S), at(15));
    near(second.ns(6 * TICKS_PER_S), at(18));
}

#[test]
fn a_machine_that_slept_is_aligned_in_pieces() {
    // The TSC counts through a suspend, CLOCK_MONOTONIC does not.
    let taken = steadily(4);
    let (before, after) = (
        Steered::new(START, 1_000_000_000, &[]),
        Steered::new(START + 60 * TICKS_PER_S, 5_200_000_000, &[]),
    );
    let mut evidence = vec![reference("mono"), source(GUEST, "mono")];
    let host = Steered::new(START, 500, &[]);
    evidence.extend(readings(HOST, &host, START, &steadily(70)));
    evidence.extend(readings(GUEST, &before, START, &taken));
    evidence.extend(readings(GUEST, &after, START + 60 * TICKS_PER_S, &taken));
    evidence.push(offset(GUEST, HOST, 0, 700));
    let graph = graph(&evidence);
    assert!(graph.notes()[0].contains("stepped"), "{:?}", graph.notes());
    let converter = graph.converter(GUEST, CpuId(0)).unwrap();
    let ts = |ns: u64| converter.trace_from_source(Timestamp::new(ns)).unwrap().0.get();
    assert!(ts(3_000_000_000).abs_diff(2_000_000_500) < 500);
    assert!(ts(7_200_000_000).abs_diff(62_000_000_500) < 500, "{}", ts(7_200_000_000));
}

#[test]
fn vcpus_that_disagree_leave_the_exchange() {
    let pair = Pair::new([&[], &[]], [&steadily(4), &steadily(4)]);
    let mut evidence = vec![reference("mono"), source(GUEST, "mono")];
    evidence.extend(pair.host_readings.clone());
    evidence.extend(pair.guest_readings.clone());
    evidence.push(offset(GUEST, HOST, OFFSET, 1));
    let mut other = offset(GUEST, HOST, OFFSET + 7_777, 1);
    if let Evidence::TscOffset { vcpu, .. } = &mut other {
        *vcpu = VcpuId(1);
    }
    evidence.push(other);
    for s in 0..4 {
        let tick = START + s * TICKS_PER_S;
        evidence.push(Evidence::Exchange {
            machine: GUEST,
            parent: HOST,
            host_send: pair.host.ns(tick),
            guest: pair.guest.ns(tick.checked_add_signed(OFFSET).unwrap() + 50_000),
            host_recv: pair.host.ns(tick + 100_000),
        });
    }
    let graph = graph(&evidence);
    assert!(graph.notes()[0].contains("different TSC offsets"), "{:?}", graph.notes());
    assert_eq!(graph.edges()[0].method, "exchange");
}

#[test]
fn the_tighter_way_is_taken_and_the_other_is_told() {
    let pair = Pair::new([&[], &[]], [&steadily(4), &steadily(4)]);
    let mut evidence = vec![reference("mono"), source(GUEST, "mono")];
    evidence.extend(pair.host_readings.clone());
    evidence.extend(pair.guest_readings.clone());
    evidence.push(offset(GUEST, HOST, OFFSET, 1));
    for s in 0..4 {
        let tick = START + s * TICKS_PER_S;
        evidence.push(Evidence::Exchange {
            machine: GUEST,
            parent: HOST,
            host_send: pair.host.ns(tick),
            guest: pair.guest.ns(tick.checked_add_signed(OFFSET).unwrap() + 50_000),
            host_recv: pair.host.ns(tick + 100_000),
        });
    }
    let exact = graph(&evidence);
    assert_eq!(exact.edges()[0].method, "tsc_offset");
    assert_eq!(exact.unused_edges()[0].method, "exchange");
    assert!(exact.edges()[0].error_bound_ns * 10 < exact.unused_edges()[0].error_bound_ns);
    let options = ClockOptions { use_tsc_offset: false, ..ClockOptions::default() };
    let guess = ClockGraph::from_evidence(&evidence, options).unwrap();
    assert_eq!(guess.edges()[0].method, "exchange");
    let tick = START + TICKS_PER_S;
    let stamp = Timestamp::new(pair.guest.ns(tick.checked_add_signed(OFFSET).unwrap()));
    for graph in [exact, guess] {
        let converter = graph.converter(GUEST, CpuId(0)).unwrap();
        let (ts, bound) = converter.trace_from_source(stamp).unwrap();
        assert!(ts.get().abs_diff(pair.host.ns(tick) as i64) <= bound.0);
    }
}

#[test]
fn readings_of_a_long_recording_are_fitted_in_no_time() {
    let host = Steered::new(START, 500, &[]);
    let mut evidence = vec![reference("mono"), source(GUEST, "mono")];
    evidence.extend(readings(HOST, &host, START, &steadily(7_200)));
    evidence.extend(readings(GUEST, &host, START, &steadily(7_200)));
    evidence.push(offset(GUEST, HOST, 0, 700));
    let start = std::time::Instant::now();
    let converter = graph(&evidence).converter(GUEST, CpuId(0)).unwrap();
    assert_eq!(converter.pieces(), 1);
    let took = start.elapsed();
    assert!(took.as_secs() < 10, "took {took:?} (unoptimized build, slow machine)");
}
