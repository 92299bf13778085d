//! The graph as a whole: evidence in, trace time and bounds out.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a failed expectation is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers chosen by the tests"
)]

use transect_clock::{
    ClockError, ClockGraph, ClockOptions, Converter, Evidence, Unit,
    evidence::RateSource::{Measured, PerfMmap},
};
use transect_model::{
    ids::{CpuId, MachineId, VcpuId},
    time::{ErrorBoundNs, Source, Timestamp},
};

const HOST: MachineId = MachineId(0);
const GUEST: MachineId = MachineId(1);
const NESTED: MachineId = MachineId(2);

fn reference(clock: &str) -> Evidence {
    Evidence::Reference { machine: HOST, clock: clock.to_owned() }
}

fn rate(mult: u32, shift: u32) -> Evidence {
    Evidence::TscRate { machine: HOST, mult, shift, offset_ns: 0, how: PerfMmap, error_ppm: 0.0 }
}

fn offset(machine: MachineId, parent: MachineId, vcpu: u32, offset: i64, at_host: u64) -> Evidence {
    let vcpu = VcpuId(vcpu);
    Evidence::TscOffset { machine, parent, vcpu, offset, ratio: None, frac_bits: None, at_host }
}

fn exchange(host_send: u64, guest: u64, host_recv: u64) -> Evidence {
    Evidence::Exchange { machine: GUEST, parent: HOST, host_send, guest, host_recv }
}

fn graph(evidence: &[Evidence]) -> ClockGraph {
    ClockGraph::from_evidence(evidence, ClockOptions::default()).unwrap()
}

fn estimated(evidence: &[Evidence]) -> ClockGraph {
    let options = ClockOptions { use_tsc_offset: false, ..ClockOptions::default() };
    ClockGraph::from_evidence(evidence, options).unwrap()
}

fn trace(converter: &Converter, stamp: u64) -> (i64, u64) {
    let (ts, bound) = converter.trace_from_source(Timestamp::<Source>::new(stamp)).unwrap();
    let alone = converter.trace_only(Timestamp::new(stamp)).unwrap();
    assert_eq!(ts, alone, "with and without bound must agree");
    (ts.get(), bound.0)
}

/// A recording of a nested KVM host (2.596 GHz, Linux 6.1) and its guest: offset read from KVM's
/// debugfs on the host, TIMESHIFT as trace-cmd 3.1.6 wrote it into the guest's file.
const OFFSET: i64 = -37_855_553_294;
/// The first and the last event of that guest's file as `trace-cmd report --raw-ts` shows them,
/// and as trace-cmd's merged report of host and guest does.
const GUEST_STAMP: u64 = 71_756_835_852;
const HOST_STAMP: u64 = 109_612_389_146;
const LAST_GUEST_STAMP: u64 = 85_119_371_194;
const LAST_HOST_STAMP: u64 = 122_974_924_488;

#[test]
fn a_real_guest_is_aligned_by_its_tsc_offset_to_the_tick() {
    let graph = graph(&[
        reference("x86-tsc"),
        offset(GUEST, HOST, 0, OFFSET, 90_000_000_000),
        offset(GUEST, HOST, 1, OFFSET, 90_000_000_100),
        offset(GUEST, HOST, 0, OFFSET, 130_000_000_000),
    ]);
    assert_eq!(graph.unit(), Unit::Ticks);
    for cpu in [0, 1, 2] {
        let converter = graph.converter(GUEST, CpuId(cpu)).unwrap();
        assert_eq!(trace(&converter, GUEST_STAMP), (HOST_STAMP as i64, 0));
        assert_eq!(trace(&converter, LAST_GUEST_STAMP), (LAST_HOST_STAMP as i64, 0));
    }
    assert_eq!(graph.edges()[0].offset, -OFFSET);
    assert_eq!(graph.error_bound(GUEST).unwrap(), ErrorBoundNs::EXACT);
}

#[test]
fn trace_cmds_time_shift_says_the_same_as_the_tsc_offset() {
    let shift = |cpu: u32, at_guest: u64| Evidence::TimeShift {
        machine: GUEST,
        parent: HOST,
        cpu: CpuId(cpu),
        at_guest,
        offset: 37_855_553_294,
        scaling: 1,
        fraction: 0,
        interpolated: false,
    };
    let graph = graph(&[
        reference("x86-tsc"),
        shift(0, 61_120_006_909),
        shift(0, 85_392_228_532),
        shift(1, 61_326_269_667),
        shift(1, 85_610_462_002),
    ]);
    let converter = graph.converter(GUEST, CpuId(1)).unwrap();
    assert_eq!(trace(&converter, GUEST_STAMP), (HOST_STAMP as i64, 0));
    assert_eq!(trace(&converter, LAST_GUEST_STAMP), (LAST_HOST_STAMP as i64, 0));
    assert_eq!(graph.edges()[0].method, "timeshift");
}

#[test]
fn host_and_guest_at_the_same_tick_get_the_same_nanosecond() {
    // 2.596 GHz as the kernel's mult and shift.
    let graph =
        graph(&[reference("x86-tsc"), rate(1_654_435_054, 32), offset(GUEST, HOST, 0, OFFSET, 1)]);
    let host = graph.converter(HOST, CpuId(0)).unwrap();
    let guest = graph.converter(GUEST, CpuId(0)).unwrap();
    for tick in [HOST_STAMP, HOST_STAMP + 1, HOST_STAMP + 2, 1 << 50] {
        let (ts, bound) = trace(&guest, tick - OFFSET.unsigned_abs());
        assert_eq!((ts, bound), trace(&host, tick));
        assert_eq!(bound, 0);
    }
    assert_eq!(graph.unit(), Unit::Nanoseconds);
}

#[test]
fn the_channels_estimate_lies_within_its_own_bound_of_the_exact_offset() {
    let mut evidence = vec![reference("x86-tsc"), rate(1_654_435_054, 32)];
    for i in 0..50u64 {
        let host = 100_000_000_000 + i * 500_000_000;
        let (there, back) = (80_000 + i * 7_919 % 200_000, 60_000 + i * 104_729 % 90_000);
        let guest = host + there - OFFSET.unsigned_abs();
        evidence.push(exchange(host, guest, host + there + back));
        evidence.push(offset(GUEST, HOST, 0, OFFSET, host));
    }
    let (exact, guess) = (graph(&evidence), estimated(&evidence));
    assert_eq!(exact.edges()[1].method, "tsc_offset");
    assert_eq!(exact.unused_edges()[0].method, "exchange");
    assert_eq!(guess.edges()[1].method, "exchange");
    let exact = exact.converter(GUEST, CpuId(0)).unwrap();
    let guess = guess.converter(GUEST, CpuId(0)).unwrap();
    for i in 0..60u64 {
        let stamp = 100_000_000_000 - OFFSET.unsigned_abs() + i * 450_000_000;
        let ((truth, _), (ts, bound)) = (trace(&exact, stamp), trace(&guess, stamp));
        assert!(truth.abs_diff(ts) <= bound, "{truth} {ts} {bound}");
        assert!(bound < 40_000, "a bracket of 200 us or less was there, bound {bound} ns");
    }
}

#[test]
fn a_reboot_cuts_the_clock_in_two_and_the_stream_tells_the_side() {
    // Booted at host tick 1,000,000; again at about 50,000,000: guest stamps start over.
    let graph = graph(&[
        reference("x86-tsc"),
        offset(GUEST, HOST, 0, -1_000_000, 2_000_000),
        offset(GUEST, HOST, 0, -1_000_000, 48_000_000),
        offset(GUEST, HOST, 0, -50_000_000, 52_000_000),
    ]);
    let mut stream = graph.converter(GUEST, CpuId(0)).unwrap();
    assert_eq!(stream.pieces(), 2);
    let mut follow = |stamp: u64| stream.follow(Timestamp::new(stamp)).unwrap().get();
    assert_eq!(follow(5_000_000), 6_000_000);
    assert_eq!(follow(40_000_000), 41_000_000);
    // Backwards: only the second boot can show it.
    assert_eq!(follow(10_000_000), 60_000_000);
    // The first boot showed this number too, but the stream is past it.
    assert_eq!(follow(40_000_000), 90_000_000);
    let alone = graph.converter(GUEST, CpuId(0)).unwrap();
    assert_eq!(trace(&alone, 40_000_000).0, 41_000_000);
    // Beyond the last sight of the first offset's successor: the first boot cannot show it.
    assert_eq!(trace(&alone, 60_000_000).0, 110_000_000);
}

#[test]
fn a_source_begun_after_a_reboot_is_of_the_second_boot_from_its_first_stamp() {
    let source = |clock: &str| Evidence::SourceClock { machine: GUEST, clock: clock.to_owned() };
    let graph = graph(&[
        reference("x86-tsc"),
        source("x86-tsc"),
        offset(GUEST, HOST, 0, -1_000_000, 2_000_000),
        offset(GUEST, HOST, 0, -1_000_000, 48_000_000),
        offset(GUEST, HOST, 0, -50_000_000, 52_000_000),
        Evidence::ClockRestart { machine: GUEST, at_host: 55_000_000 },
        source("x86-tsc"),
        // Its agent was restarted: another source of the same boot.
        source("x86-tsc"),
    ]);
    let boots: Vec<usize> = (0..4).map(|number| graph.boot_of_source(GUEST, number)).collect();
    assert_eq!(boots, [0, 1, 1, 1]);
    assert_eq!(graph.boot_of_source(HOST, 3), 0);
    // Both boots could show this number, and the first one's window has it.
    for (number, ts) in [(0, 11_000_000), (1, 60_000_000)] {
        let boot = graph.boot_of_source(GUEST, number);
        let mut stream = graph.converter_of_boot(GUEST, CpuId(0), boot).unwrap();
        assert_eq!(trace(&stream, 10_000_000).0, ts);
        assert_eq!(stream.follow(Timestamp::new(10_000_000)).unwrap().get(), ts);
    }
}

#[test]
fn brackets_on_both_sides_of_a_restart_do_not_mix() {
    let mut evidence = vec![reference("mono")];
    let ask = |host: u64, guest: u64| exchange(host, guest, host + 100_000);
    for i in 0..10 {
        evidence.push(ask(1_000_000_000 + i * 200_000_000, 500_050_000 + i * 200_000_000));
    }
    evidence.push(Evidence::ClockRestart { machine: GUEST, at_host: 4_000_000_000 });
    for i in 0..10 {
        evidence.push(ask(5_000_000_000 + i * 200_000_000, 10_050_000 + i * 200_000_000));
    }
    let graph = graph(&evidence);
    let mut stream = graph.converter(GUEST, CpuId(0)).unwrap();
    assert_eq!(stream.pieces(), 2);
    let mut near = |stamp: u64, host: i64| {
        let ts = stream.follow(Timestamp::new(stamp)).unwrap().get();
        assert!(ts.abs_diff(host) <= 50_100, "{stamp}: {ts}, expected {host}");
    };
    near(700_000_000, 1_200_000_000);
    near(2_300_000_000, 2_800_000_000);
    near(210_000_000, 5_200_000_000);
    near(1_700_000_000, 6_690_000_000);
}

#[test]
fn a_nested_guest_goes_by_way_of_its_host_guest() {
    let graph = graph(&[
        reference("x86-tsc"),
        offset(GUEST, HOST, 0, -1_000, 5_000),
        offset(GUEST, HOST, 1, -1_000, 5_000),
        offset(NESTED, GUEST, 0, -500, 4_000),
    ]);
    let converter = graph.converter(NESTED, CpuId(0)).unwrap();
    assert_eq!(trace(&converter, 7_000), (8_500, 0));
}

#[test]
fn vcpus_with_offsets_of_their_own_are_kept_apart() {
    let graph = graph(&[
        reference("x86-tsc"),
        offset(GUEST, HOST, 0, -1_000, 5_000),
        offset(GUEST, HOST, 1, -2_000, 5_000),
    ]);
    assert_eq!(trace(&graph.converter(GUEST, CpuId(0)).unwrap(), 10), (1_010, 0));
    assert_eq!(trace(&graph.converter(GUEST, CpuId(1)).unwrap(), 10), (2_010, 0));
    let unknown = graph.converter(GUEST, CpuId(2)).unwrap_err();
    assert_eq!(unknown, ClockError::NoOffset { machine: GUEST, cpu: CpuId(2) });
}

#[test]
fn a_scaled_tsc_is_undone_in_its_own_fixed_point() {
    // Guest at 2.0 GHz on a 2.6 GHz host, VMX fraction bits.
    let ratio = ((2_000u128 << 48) / 2_600) as u64;
    let scaled = Evidence::TscOffset {
        machine: GUEST,
        parent: HOST,
        vcpu: VcpuId(0),
        offset: -1_000_000,
        ratio: Some(ratio),
        frac_bits: Some(48),
        at_host: 9,
    };
    let graph = graph(&[reference("x86-tsc"), scaled]);
    let converter = graph.converter(GUEST, CpuId(0)).unwrap();
    for host in [2_000_000u64, 2_000_001, 77_777_777_777, 1 << 60] {
        let guest = ((u128::from(host) * u128::from(ratio)) >> 48) as u64 - 1_000_000;
        let (ts, bound) = trace(&converter, guest);
        assert!(ts as u64 <= host && host <= ts as u64 + bound, "{host}: {ts} + {bound}");
        assert_eq!(bound, 1);
    }
}

#[test]
fn a_guest_in_nanoseconds_meets_a_host_in_ticks() {
    let mut evidence = vec![
        reference("x86-tsc"),
        rate(1 << 31, 32), // 2 GHz
        Evidence::SourceClock { machine: GUEST, clock: "mono".to_owned() },
    ];
    for i in 0..40u64 {
        let ns = 3_000_000_000 + i * 200_000_000;
        evidence.push(exchange(2 * ns, ns - 2_999_960_000, 2 * ns + 160_000));
    }
    let graph = graph(&evidence);
    let converter = graph.converter(GUEST, CpuId(3)).unwrap();
    let (ts, bound) = trace(&converter, 2_000_040_000);
    assert!(ts.abs_diff(5_000_000_000) <= bound, "{ts} +- {bound}");
    assert!(bound < 60_000, "{bound}");
}

#[test]
fn what_is_missing_is_said() {
    assert_eq!(
        ClockGraph::from_evidence(&[], ClockOptions::default()).unwrap_err(),
        ClockError::NoReference
    );
    let lone = graph(&[reference("mono")]);
    let error = lone.converter(GUEST, CpuId(0)).unwrap_err();
    assert_eq!(error, ClockError::NoPath { machine: GUEST });
    assert!(error.to_string().contains("agent"));
    let bad = [reference("x86-tsc"), rate(0, 32)];
    assert!(ClockGraph::from_evidence(&bad, ClockOptions::default()).is_err());
    let counting = [
        reference("mono"),
        Evidence::SourceClock { machine: GUEST, clock: "counter".to_owned() },
        exchange(1, 2, 3),
    ];
    let graph = graph(&counting);
    assert!(graph.notes()[0].contains("counter"), "{:?}", graph.notes());
}

#[test]
fn stamps_of_64_bits_are_refused_or_kept_but_never_wrapped() {
    let huge = Timestamp::<Source>::new(u64::MAX);
    let ns = graph(&[reference("mono")]).converter(HOST, CpuId(0)).unwrap();
    let error = ns.trace_from_source(huge).unwrap_err();
    assert_eq!(error, ClockError::OutOfRange { stamp: u64::MAX });
    let tsc = graph(&[reference("x86-tsc"), rate(1 << 31, 32)]).converter(HOST, CpuId(0)).unwrap();
    assert_eq!(tsc.trace_only(huge).unwrap().get(), i64::MAX);
    let guest = graph(&[reference("x86-tsc"), offset(GUEST, HOST, 0, -1, 0)]);
    let guest = guest.converter(GUEST, CpuId(0)).unwrap();
    assert!(guest.trace_only(huge).is_err());
    let early = graph(&[reference("x86-tsc"), offset(GUEST, HOST, 0, 100, 0)]);
    let early = early.converter(GUEST, CpuId(0)).unwrap();
    assert!(early.trace_only(Timestamp::new(99)).is_err());
}

#[test]
fn a_measured_rate_owns_up_to_its_error() {
    let measured = |mult, error_ppm| Evidence::TscRate {
        machine: HOST,
        mult,
        shift: 32,
        offset_ns: 0,
        how: Measured,
        error_ppm,
    };
    let rates = [measured((1 << 31) + 9_999, 400.0), measured(1 << 31, 30.0)];
    let graph = graph(&[&[reference("x86-tsc")], &rates[..]].concat());
    let row = &graph.edges()[0];
    assert_eq!((row.method.as_str(), row.error_bound_ns), ("tsc_rate", 30_000));
    assert!((row.rate - 2.0).abs() < 1e-9);
}

#[test]
fn tsc_hz_stands_in_for_a_rate_nobody_wrote() {
    let options = ClockOptions { tsc_hz: Some(2_500_000_000), ..ClockOptions::default() };
    let graph = ClockGraph::from_evidence(&[reference("x86-tsc")], options).unwrap();
    let converter = graph.converter(HOST, CpuId(0)).unwrap();
    assert_eq!(graph.unit(), Unit::Nanoseconds);
    let (ts, _) = trace(&converter, 25_000_000_000);
    assert!(ts.abs_diff(10_000_000_000) <= 5, "{ts}");
}

#[test]
fn evidence_is_stable_json_lines() {
    let lines = [
        (reference("x86-tsc"), r#"{"evidence":"reference","machine":0,"clock":"x86-tsc"}"#),
        (
            offset(GUEST, HOST, 1, -5, 7),
            r#"{"evidence":"tsc_offset","machine":1,"parent":0,"vcpu":1,"offset":-5,"at_host":7}"#,
        ),
        (
            exchange(1, u64::MAX, 3),
            r#"{"evidence":"exchange","machine":1,"parent":0,"host_send":1,"guest":18446744073709551615,"host_recv":3}"#,
        ),
        (
            Evidence::ClockRestart { machine: GUEST, at_host: 4 },
            r#"{"evidence":"clock_restart","machine":1,"at_host":4}"#,
        ),
        (
            rate(3, 4),
            r#"{"evidence":"tsc_rate","machine":0,"mult":3,"shift":4,"offset_ns":0,"how":"perf_mmap","error_ppm":0.0}"#,
        ),
    ];
    for (record, line) in lines {
        assert_eq!(serde_json::to_string(&record).unwrap(), line);
        assert_eq!(serde_json::from_str::<Evidence>(line).unwrap(), record);
    }
}

#[test]
fn the_documented_evidence_is_evidence() {
    let text = include_str!("../../../../docs/reference/clocks.md");
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("{\"evidence\"")).collect();
    assert!(lines.len() >= 6);
    let evidence: Vec<Evidence> = lines.iter().map(|l| serde_json::from_str(l).expect(l)).collect();
    for (line, record) in lines.iter().zip(&evidence) {
        assert_eq!(&serde_json::to_string(record).unwrap(), line);
    }
    // Its exchange and its offset agree.
    let exact = graph(&evidence).converter(GUEST, CpuId(0)).unwrap();
    let guess = estimated(&evidence).converter(GUEST, CpuId(0)).unwrap();
    let ((truth, _), (ts, bound)) = (trace(&exact, GUEST_STAMP), trace(&guess, GUEST_STAMP));
    assert!(truth.abs_diff(ts) <= bound, "{truth} {ts} {bound}");
}
