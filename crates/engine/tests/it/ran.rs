//! A kernel's clock is found again from when its vCPU ran, whatever its offset: made-up hypervisors
//! and kernels, whose truth is known.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers chosen by the test; a failed expectation is the report"
)]

use proptest::prelude::*;
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_engine::{
    ran::{PlaceError, Running, Stamps, place, same_tsc},
    xen::CLOCK,
};
use transect_model::{
    ids::{CpuId, MachineId},
    time::{Source, Timestamp},
};
use transect_xentrace::{Runstate, Writer, XenEvent, XenTrace, XenVcpu, XenVersion};

const XEN: MachineId = MachineId(0);
const GUEST: MachineId = MachineId(1);
const VCPU: XenVcpu = XenVcpu { dom: 1, vcpu: 0 };
/// Trace time is in ticks.
const HZ: u64 = 1_000_000_000;

/// Some randomness that is the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, from: u64, to: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (self.0 >> 33) % (to - from)
    }
}

struct Made {
    /// What Xen recorded.
    xen: Vec<u8>,
    /// The kernel's stamps, and Xen's time of each.
    truth: Vec<(u64, u64)>,
}

/// How the clock of the guest comes to be.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Xen's TSC minus the guest's clock, in the beginning.
    offset: i64,
    /// It jumps by up to this where the vCPU moves to the other pCPU, ticks.
    jump: u64,
    /// And drifts by this, ppm.
    drift_ppm: i64,
    /// Xen records each reading.
    emulated: bool,
}

/// A vCPU that runs for a millisecond or two now and then, on one of two pCPUs, and stamps events
/// while it does.
fn made(clock: Clock, seed: u64, rounds: u64) -> Made {
    let mut dice = Dice(seed);
    let mut records: [Vec<(u64, XenEvent)>; 2] = [Vec::new(), Vec::new()];
    let mut truth = Vec::new();
    let begin = 1u64 << 45;
    let mut t = begin;
    let of_pcpu = [0, dice.roll(0, 2 * clock.jump + 1) as i64 - clock.jump as i64];
    for _ in 0..rounds {
        t += dice.roll(6_000_000, 40_000_000);
        let pcpu = dice.roll(0, 2) as usize;
        let mut record = |t, event| records[pcpu].push((t, event));
        record(
            t,
            XenEvent::RunstateChange { vcpu: VCPU, old: Runstate::Blocked, new: Runstate::Running },
        );
        t += dice.roll(20_000, 120_000);
        for _ in 0..dice.roll(8, 30) {
            let guest = t as i64 - clock.offset
                + of_pcpu[pcpu]
                + (t - begin) as i64 / 1000 * clock.drift_ppm / 1000;
            if dice.roll(0, 3) == 0 {
                truth.push((guest as u64, t));
            }
            if clock.emulated {
                record(t + dice.roll(300, 2_500), XenEvent::PvPrivop { rip: 0x1234 });
            }
            t += dice.roll(8_000, 150_000);
        }
        record(
            t,
            XenEvent::RunstateChange { vcpu: VCPU, old: Runstate::Running, new: Runstate::Blocked },
        );
    }
    let mut writer = Writer::new(Vec::new(), 4096);
    for (cpu, records) in (0u32..).zip(records) {
        for (t, event) in records {
            writer.event(CpuId(cpu), t, &event).unwrap();
        }
    }
    Made { xen: writer.finish().unwrap(), truth }
}

/// Finds the clock again; gives how far every stamp is off, and its bound.
fn found(made: &Made) -> Vec<(u64, u64)> {
    let trace = XenTrace::parse(&made.xen, XenVersion::Minor(17)).unwrap();
    assert!(trace.problems().is_empty(), "{:?}", trace.problems());
    let running = Running::of(&trace);
    let stamps = Stamps::new([(CpuId(0), made.truth.iter().map(|(guest, _)| *guest).collect())]);
    let placed = place(&running, VCPU.dom, &stamps, (1, 1), (GUEST, XEN)).unwrap();
    assert!(placed.share.tested > 0 && placed.share.inside == placed.share.tested, "{placed:?}");
    let mut evidence = vec![
        Evidence::Reference { machine: XEN, clock: CLOCK.into() },
        Evidence::SourceClock { machine: GUEST, clock: CLOCK.into() },
    ];
    evidence.extend(placed.evidence);
    let options = ClockOptions { tsc_hz: Some(HZ), ..ClockOptions::default() };
    let graph = ClockGraph::from_evidence(&evidence, options).unwrap();
    assert_eq!(graph.edges()[1].method, "causality");
    let clock = graph.converter(GUEST, CpuId(0)).unwrap();
    let each = made.truth.iter().map(|(guest, host)| {
        let (trace, bound) = clock.trace_from_source(Timestamp::<Source>::new(*guest)).unwrap();
        (trace.get().abs_diff(*host as i64), bound.0)
    });
    each.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn an_offset_put_in_is_found_within_the_bound(
        offset in -(1i64 << 42)..1i64 << 42, jump in 0u64..100_000, drift_ppm in -100i64..100,
        emulated: bool, seed: u64,
    ) {
        let made = made(Clock { offset, jump, drift_ppm, emulated }, seed, 300);
        let found = found(&made);
        for (off, bound) in &found {
            prop_assert!(off <= bound, "off by {off}, bound {bound}");
        }
        if emulated {
            // The readings tell most of it to a few microseconds.
            let sharp = found.iter().filter(|(_, bound)| *bound < 30_000).count();
            prop_assert!(10 * sharp > 5 * found.len(), "{sharp} of {}", found.len());
        }
    }
}

/// A vCPU that runs for a tenth of a millisecond now and then, with its first events a moment after the switch: that
/// is all the room its clock's offset has. Now and then they come half a millisecond later.
fn made_brief(offset: i64) -> Made {
    let mut dice = Dice(1);
    let (mut records, mut truth, mut t) = (Vec::new(), Vec::new(), 1u64 << 45);
    let mut change = |t, old, new| {
        records.push((t, XenEvent::RunstateChange { vcpu: VCPU, old, new }));
    };
    for round in 0..200 {
        t += dice.roll(6_000_000, 40_000_000);
        change(t, Runstate::Blocked, Runstate::Running);
        t += if round % 10 == 0 { dice.roll(500_000, 600_000) } else { 0 };
        for after in [20_000, 24_000, 28_000, 32_000, 60_000, 90_000] {
            let host = t + after + dice.roll(0, 2_000);
            truth.push(((host as i64 - offset) as u64, host));
        }
        t += 100_000;
        change(t, Runstate::Running, Runstate::Blocked);
    }
    let mut writer = Writer::new(Vec::new(), 4096);
    for (t, event) in records {
        writer.event(CpuId(0), t, &event).unwrap();
    }
    Made { xen: writer.finish().unwrap(), truth }
}

#[test]
fn an_offset_is_found_wherever_it_lies_beside_the_bins_of_the_vote() {
    for part in 0..64 {
        let made = made_brief((1 << 40) + part * (1 << 19) / 64);
        for (off, bound) in found(&made) {
            assert!(off <= bound, "at {part} of 64: off by {off}, bound {bound}");
        }
    }
}

#[test]
fn the_same_counter_is_seen_to_be_it_and_another_is_not() {
    let clock = Clock { offset: 0, jump: 0, drift_ppm: 0, emulated: false };
    for (offset, same) in [(0, true), (5_000_000, false)] {
        let made = made(Clock { offset, ..clock }, 7, 100);
        let trace = XenTrace::parse(&made.xen, XenVersion::Minor(17)).unwrap();
        let stamps = made.truth.iter().map(|(guest, _)| *guest).collect();
        let stamps = Stamps::new([(CpuId(0), stamps)]);
        let share = same_tsc(&Running::of(&trace), VCPU.dom, &stamps);
        assert_eq!(share.is_proof(), same, "{share:?}");
    }
}

#[test]
fn events_of_another_time_are_refused() {
    let clock = Clock { offset: 1, jump: 0, drift_ppm: 0, emulated: false };
    let (one, other) = (made(clock, 1, 200), made(clock, 2, 200));
    let trace = XenTrace::parse(&one.xen, XenVersion::Minor(17)).unwrap();
    let running = Running::of(&trace);
    let stamps = other.truth.iter().map(|(guest, _)| *guest).collect();
    let stamps = Stamps::new([(CpuId(0), stamps)]);
    let refused = place(&running, VCPU.dom, &stamps, (1, 1), (GUEST, XEN)).unwrap_err();
    assert!(matches!(refused, PlaceError::NoFit { dom: 1, .. }), "{refused}");
    let silent = place(&running, 9, &stamps, (1, 1), (GUEST, XEN)).unwrap_err();
    assert_eq!(silent, PlaceError::Silent { dom: 9 });
}
