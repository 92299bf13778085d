//! What is promised of a clock that is fitted to when its vCPU ran, over simulated hypervisors.
#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers chosen by the tests"
)]

use proptest::prelude::*;
use transect_clock::{
    ClockGraph, ClockOptions, Evidence,
    ran::{Fit, Read, Stretch, WANDER_PPM, fit},
};
use transect_model::{
    ids::{CpuId, MachineId},
    time::{Source, Timestamp},
};

/// One stretch to be: time off before it, its length, how much of it has no event at its begin and
/// end, how the clock's rate is off in it and before it (ppm), and how far it jumps before it
/// (ticks).
#[derive(Clone, Copy, Debug)]
struct Step {
    off: u64,
    ran: u64,
    idle: (u64, u64),
    ppm: i64,
    jump: i64,
}

fn steps(ppm: i64, jump: i64) -> impl Strategy<Value = Vec<Step>> {
    let idle = || prop_oneof![0u64..2_000, 0u64..400_000];
    let step = (1_000_000u64..50_000_000, 1_000_000u64..5_000_000, (idle(), idle()))
        .prop_flat_map(move |(off, ran, idle)| (Just((off, ran, idle)), -ppm..=ppm, -jump..=jump))
        .prop_map(|((off, ran, idle), ppm, jump)| Step { off, ran, idle, ppm, jump });
    prop::collection::vec(step, 1..200)
}

/// The stretches, and some stamps in each with the hypervisor's time of it.
fn recorded(offset: i64, steps: &[Step]) -> (Vec<Stretch>, Vec<(u64, u64)>) {
    let mut host = 1u64 << 40;
    let mut drifted = 0i64;
    let (mut stretches, mut truth) = (Vec::new(), Vec::new());
    for step in steps {
        let passed = |ticks: u64, ppm: i64| ticks.cast_signed() * ppm / 1_000_000;
        drifted += passed(step.off, step.ppm) + step.jump;
        let from = host + step.off;
        let at = |host: u64| {
            let guest = host.cast_signed() - offset + drifted + passed(host - from, step.ppm);
            (guest as u64, host)
        };
        let to = from + step.ran;
        let events = [from + step.idle.0, from + step.ran / 2, to - step.idle.1].map(at);
        drifted += passed(step.ran, step.ppm);
        host = to;
        stretches.push(Stretch { from, first: events[0].0, last: events[2].0, to });
        truth.extend(events);
    }
    (stretches, truth)
}

fn off_by(fit: &Fit, (guest, host): (u64, u64)) -> u64 {
    fit.host_from_guest(guest).unwrap().abs_diff(host)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn an_offset_that_drifts_is_found_within_the_bound(
        offset in -(1i64 << 39)..1i64 << 39, steps in steps(i64::from(WANDER_PPM) - 1, 0),
    ) {
        let (stretches, truth) = recorded(offset, &steps);
        let fit = fit(&stretches, &[], (1, 1)).unwrap();
        prop_assert_eq!(fit.contradicting, 0);
        for at in truth {
            prop_assert!(off_by(&fit, at) <= fit.bound_ticks(at.0), "{:?} {}", at, off_by(&fit, at));
        }
    }

    /// Without readings of the clock, jumps are allowed for that nobody can see.
    #[test]
    fn an_offset_that_jumps_is_found_within_the_bound(
        offset in -(1i64 << 39)..1i64 << 39, steps in steps(100, 200_000),
    ) {
        let (stretches, truth) = recorded(offset, &steps);
        let fit = fit(&stretches, &[], (1, 1)).unwrap();
        prop_assert_eq!((fit.contradicting, fit.read), (0, 0));
        for at in truth {
            prop_assert!(off_by(&fit, at) <= fit.bound_ticks(at.0), "{:?} {}", at, off_by(&fit, at));
        }
    }

    /// With them only in every other stretch: the jumps are seen, and what is between is bound by
    /// them.
    #[test]
    fn readings_make_the_bound_small_where_they_are(
        offset in -(1i64 << 39)..1i64 << 39, steps in steps(100, 20_000),
    ) {
        let (stretches, truth) = recorded(offset, &steps);
        let sharp = |n: usize| (n / 3).is_multiple_of(2);
        let reads = truth.iter().enumerate().filter(|(n, _)| sharp(*n));
        let reads = reads.map(|(_, (stamp, t))| Read { after: t - 500, stamp: *stamp, before: t + 500 });
        let fit = fit(&stretches, &reads.collect::<Vec<_>>(), (1, 1)).unwrap();
        prop_assert_eq!((fit.contradicting, fit.read), (0, stretches.len().div_ceil(2)));
        for (n, at) in truth.iter().enumerate().filter(|(n, _)| sharp(*n)) {
            let (off, bound) = (off_by(&fit, *at), fit.bound_ticks(at.0));
            prop_assert!(off <= bound, "{n} {:?} {off} {bound}", at);
            // The clock drifts within a stretch, too.
            prop_assert!(bound < 500 + 2 * 5_000_000 / 1_000_000 * u64::from(WANDER_PPM), "{bound}");
        }
    }

    /// Whatever the stretches: their stamps come to lie in them, unless they were left out.
    #[test]
    fn stamps_come_to_lie_in_their_stretches(
        raw in prop::collection::vec((0u64..1 << 40, 0u64..1 << 20, 0u64..1 << 40, 0u64..1 << 20), 1..60),
    ) {
        let stretches: Vec<Stretch> = raw
            .iter()
            .map(|(from, ran, first, lasts)| Stretch { from: *from, first: *first, last: first + lasts, to: from + ran })
            .collect();
        if let Some(fit) = fit(&stretches, &[], (1, 1)) {
            prop_assert_eq!(fit.stretches + fit.contradicting, stretches.len());
        }
    }
}

#[test]
fn the_fuller_the_stretches_the_smaller_the_bound() {
    let steps = |idle: u64| -> Vec<Step> {
        (0..50)
            .map(|_| Step { off: 10_000_000, ran: 2_000_000, idle: (idle, idle), ppm: 0, jump: 0 })
            .collect()
    };
    let bound = |idle: u64| {
        let (stretches, truth) = recorded(77, &steps(idle));
        fit(&stretches, &[], (1, 1)).unwrap().bound_ticks(truth[75].0)
    };
    let bounds = [1_000, 10_000, 100_000].map(bound);
    assert!(bounds[0] < 2_500 && bounds[0] < bounds[1] && bounds[1] < bounds[2], "{bounds:?}");
}

/// Kernel clocks count nanoseconds; and each vCPU has an offset of its own.
#[test]
fn the_graph_has_an_edge_for_each_cpu_whatever_its_unit() {
    let hz = 2_500_000_000u64;
    let mut evidence = vec![
        Evidence::Reference { machine: MachineId(0), clock: "x86-tsc".into() },
        Evidence::SourceClock { machine: MachineId(1), clock: "mono".into() },
    ];
    let guest_ns = |host: u64, cpu: u64| host * 2 / 5 - 1_000_000 + 5_000 * cpu;
    for cpu in 0..2u64 {
        for n in 0..100u64 {
            let from = 1_000_000_000_000 + n * 25_000_000;
            let to = from + 2_000_000;
            let (first, last) = (guest_ns(from + 500, cpu), guest_ns(to - 500, cpu));
            let cpu = CpuId(cpu as u32);
            let (machine, parent) = (MachineId(1), MachineId(0));
            evidence.push(Evidence::VcpuRan { machine, parent, cpu, from, first, last, to });
        }
    }
    let options = ClockOptions { tsc_hz: Some(hz), ..ClockOptions::default() };
    let graph = ClockGraph::from_evidence(&evidence, options).unwrap();
    let edge = &graph.edges()[1];
    assert_eq!((edge.method.as_str(), edge.samples), ("causality", 200));
    for cpu in 0..2u64 {
        let converter = graph.converter(MachineId(1), CpuId(cpu as u32)).unwrap();
        let host = 1_000_000_000_000u64 + 50 * 25_000_000 + 1_000_000;
        let stamp = Timestamp::<Source>::new(guest_ns(host, cpu));
        let (trace, bound) = converter.trace_from_source(stamp).unwrap();
        let off = trace.get().abs_diff((host * 2 / 5).cast_signed());
        assert!(off <= bound.0 && bound.0 < 500, "{off} {bound:?}");
    }
}
