//! Whatever Xen's records say: states tile time, sums are exact, nothing panics, and it does not
//! matter how many threads read or where a run is cut.

#![allow(clippy::cast_possible_wrap, clippy::unwrap_used, reason = "a handful of actors")]

use crate::dsl::{assert_tiles, per_actor};
use proptest::prelude::*;
use std::{collections::BTreeMap, num::NonZeroUsize};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_engine::{
    Engine, Options, Summary, Topology,
    topology::MachineInfo,
    xen::{CLOCK, XenSource},
};
use transect_model::{
    ids::{CpuId, MachineId},
    state::Metric,
    table::{Tables, Window},
    time::Timestamp,
};
use transect_xentrace::{
    Hypercall, IDLE_DOMAIN, Lost, Runstate, Writer, XenEvent, XenTrace, XenVcpu, XenVersion,
};

const CPUS: u16 = 3;
const XEN: MachineId = MachineId(0);

/// A record, its pCPU, and the ticks since the one before.
type Made = (u32, u64, XenEvent);

fn vcpu() -> impl Strategy<Value = XenVcpu> {
    let guest = (0..3_u16, 0..2_u16).prop_map(|(dom, vcpu)| XenVcpu { dom, vcpu });
    let idle = (0..CPUS).prop_map(|vcpu| XenVcpu { dom: IDLE_DOMAIN, vcpu });
    prop_oneof![4 => guest, 1 => idle]
}

fn runstate() -> impl Strategy<Value = Runstate> {
    use Runstate::{Blocked, Offline, Runnable, Running};
    prop::sample::select(vec![Running, Running, Runnable, Blocked, Offline])
}

fn scheduling() -> impl Strategy<Value = XenEvent> {
    let change = (vcpu(), runstate(), runstate());
    prop_oneof![
        4 => change.prop_map(|(vcpu, old, new)| XenEvent::RunstateChange { vcpu, old, new }),
        2 => (vcpu(), vcpu()).prop_map(|(prev, next)| XenEvent::Switch { prev, next }),
        1 => vcpu().prop_map(|vcpu| XenEvent::ContinueRunning { vcpu }),
        1 => vcpu().prop_map(|vcpu| XenEvent::SwitchInfPrev { vcpu, ran_ns: 1 }),
        1 => (vcpu(), 1..100_u32).prop_map(|(vcpu, ns)| {
            XenEvent::SwitchInfNext { vcpu, waited_ns: 0, slice_ns: Some(ns) }
        }),
        1 => vcpu().prop_map(|vcpu| XenEvent::Block { vcpu }),
        1 => (0..4_u16, any::<bool>()).prop_map(|(dom, add)| {
            if add { XenEvent::DomainScheduled { dom } } else { XenEvent::DomainUnscheduled { dom } }
        }),
    ]
}

fn of_guest() -> impl Strategy<Value = XenEvent> {
    let call = (prop::sample::select(vec![20, 29, 32, 13, 23]), 0..6_u32, 0..9_u32);
    prop_oneof![
        Just(XenEvent::VmEntry { nested: false }),
        Just(XenEvent::VmExit { reason: 0x78, rip: 1, nested: false, isa: None }),
        Just(XenEvent::HvmHypercall { op: 32 }),
        call.prop_map(|(op, cmd, count)| {
            XenEvent::Hypercall(Hypercall::new(
                op,
                [Some(cmd), None, Some(count), None, None, None],
            ))
        }),
        Just(XenEvent::Subcall(Hypercall::new(32, [None; 6]))),
        Just(XenEvent::PvTrap { trap: 7, error_code: None, rip: 1 }),
        Just(XenEvent::PvPageFault { rip: 1, addr: 2, error_code: 0 }),
        Just(XenEvent::PvMathState),
        Just(XenEvent::GrantMap { dom: 1 }),
    ]
}

fn event() -> impl Strategy<Value = XenEvent> {
    let lost = (vcpu(), 1..50_u32, 0..60_u64, 0..60_u64).prop_map(|(current, count, from, to)| {
        // Stamps relative to the record's own; `file` makes them real ones.
        XenEvent::Lost(Lost { count, from_tsc: from, to_tsc: to, current })
    });
    prop_oneof![8 => scheduling(), 8 => of_guest(), 1 => lost]
}

fn records() -> impl Strategy<Value = Vec<Made>> {
    prop::collection::vec((0..u32::from(CPUS), 0..20_u64, event()), 0..120)
}

fn file(records: &[Made]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 200);
    let mut tsc = 1_000;
    for (cpu, ticks, event) in records {
        tsc += ticks;
        let (mut event, mut at) = (*event, tsc);
        if let XenEvent::Lost(lost) = &mut event {
            (lost.from_tsc, lost.to_tsc) = (tsc + lost.from_tsc, tsc + lost.from_tsc + lost.to_tsc);
            at = lost.to_tsc;
            tsc = at;
        }
        writer.event(CpuId(*cpu), at, &event).unwrap();
    }
    writer.finish().unwrap()
}

struct Reading<'d> {
    trace: XenTrace<'d>,
    clocks: ClockGraph,
}

impl<'d> Reading<'d> {
    fn new(file: &'d [u8]) -> Option<Self> {
        let trace = XenTrace::parse(file, XenVersion::Minor(17)).ok()?;
        let reference = Evidence::Reference { machine: MachineId(0), clock: CLOCK.into() };
        // A tick is a nanosecond.
        let options = ClockOptions { tsc_hz: Some(1_000_000_000), ..ClockOptions::default() };
        let clocks = ClockGraph::from_evidence(&[reference], options).unwrap();
        Some(Reading { trace, clocks })
    }

    fn engine(&self, window_ns: i64) -> Engine {
        let mut hypervisor = MachineInfo::hypervisor(MachineId(0), "xen");
        hypervisor.clock = Some(CLOCK.into());
        let topology = Topology { machines: vec![hypervisor], ..Topology::default() };
        Engine::new(topology, Options { window_ns }).with_clocks(&self.clocks)
    }

    fn run(&self, threads: usize, window_ns: i64) -> (Tables, Summary) {
        let source = XenSource::new(&self.trace, MachineId(0), "made.bin");
        let mut tables = Tables::default();
        let engine = self.engine(window_ns).with_threads(NonZeroUsize::new(threads).unwrap());
        let summary = engine.run(source.inputs(&self.clocks).unwrap(), &mut tables).unwrap();
        (tables, summary)
    }

    fn run_in_two(&self, cut: i64, window_ns: i64) -> (Tables, Summary) {
        let source = XenSource::new(&self.trace, MachineId(0), "made.bin");
        let mut tables = Tables::default();
        let inputs = || source.inputs(&self.clocks).unwrap();
        let engine = self.engine(window_ns);
        let boundary = engine.run_until(inputs(), Timestamp::new(cut), &mut tables).unwrap();
        let bytes = postcard::to_allocvec(&boundary).unwrap();
        let boundary = postcard::from_bytes(&bytes).unwrap();
        let engine = self.engine(window_ns).resume(boundary);
        let summary = engine.run(inputs(), &mut tables).unwrap();
        (tables, summary)
    }
}

fn span(summary: &Summary) -> (i64, i64) {
    summary.span.map_or((0, 0), |span| (span.start.get(), span.end.get()))
}

fn check_tiles(tables: &Tables, summary: &Summary) {
    let (start, end) = span(summary);
    for (actor, intervals) in per_actor(tables) {
        assert_tiles(&actor, intervals, start, end);
    }
    let mut domains: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    for row in &tables.domain_states {
        domains.entry(row.machine_id.0).or_default().push((row.ts, row.dur));
    }
    for (domain, intervals) in domains {
        let first = intervals.iter().map(|(ts, _)| *ts).min().unwrap();
        assert!(start <= first);
        assert_tiles(&format!("domain {domain}"), intervals, first, end);
    }
}

/// A pCPU is busy, idle or not known, as its slices say; what its domains count, it counts.
fn check_pcpu_windows(tables: &Tables, pcpus: &[&Window], of_guests: &[&Window]) {
    let key = |window: &&Window| (window.ts, window.cpu);
    for pcpu in pcpus {
        assert_eq!(pcpu.gotten_ns + pcpu.blocked_ns + pcpu.unknown_ns, pcpu.dur, "{pcpu:?}");
        let parts = || of_guests.iter().filter(|part| key(part) == key(pcpu));
        assert_eq!(parts().map(|part| part.executions).sum::<u64>(), pcpu.executions, "{pcpu:?}");
        assert_eq!(parts().map(|part| part.io_count).sum::<u64>(), pcpu.io_count, "{pcpu:?}");
    }
    for cpu in &tables.cpus {
        let slices = || tables.cpu_slices.iter().filter(|slice| slice.cpu == cpu.cpu);
        let windows = || pcpus.iter().filter(|window| window.cpu == Some(cpu.cpu));
        let busy: i64 = slices().filter(|slice| slice.vcpu.is_some()).map(|slice| slice.dur).sum();
        assert_eq!(windows().map(|window| window.gotten_ns).sum::<i64>(), busy, "{cpu:?}");
        let whole: i64 = slices().map(|slice| slice.dur).sum();
        assert_eq!(windows().map(|window| window.dur).sum::<i64>(), whole, "{cpu:?}");
    }
}

fn check_windows(tables: &Tables, summary: &Summary) {
    let (start, end) = span(summary);
    let vcpus = tables.vcpus.len() as i64;
    let (pcpus, of_guests): (Vec<_>, Vec<_>) =
        tables.windows.iter().partition(|window| window.machine_id == XEN);
    check_pcpu_windows(tables, &pcpus, &of_guests);
    for window in &of_guests {
        let sum = window.gotten_ns
            + window.waited_ns
            + window.blocked_ns
            + window.offline_ns
            + window.unknown_ns;
        let mine = tables.vcpus.iter().filter(|v| v.machine_id == window.machine_id).count() as i64;
        if window.cpu.is_some() {
            // Before a vCPU is first seen on a pCPU it counts on none.
            assert!(sum <= window.dur * mine, "{window:?}");
            continue;
        }
        let actors = if window.vcpu.is_some() { 1 } else { mine };
        assert_eq!(sum, window.dur * actors, "{window:?}");
    }
    let of_vcpus = || of_guests.iter().filter(|w| w.vcpu.is_some());
    assert_eq!(of_vcpus().map(|w| w.dur).sum::<i64>(), (end - start) * vcpus);
    let running = tables.vcpu_states.iter().filter(|r| r.state.metric() == Metric::Gotten);
    let running: i64 = running.map(|r| r.dur).sum();
    assert_eq!(of_vcpus().map(|w| w.gotten_ns).sum::<i64>(), running);
    // Whoever runs does so on some pCPU.
    let of_pcpus = || of_guests.iter().filter(|w| w.cpu.is_some());
    assert_eq!(of_pcpus().map(|w| w.gotten_ns).sum::<i64>(), running);
    let executions = of_vcpus().map(|w| w.executions).sum::<u64>();
    assert_eq!(of_pcpus().map(|w| w.executions).sum::<u64>(), executions);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn states_tile_time(records in records(), window in 1..500_i64) {
        let file = file(&records);
        let Some(reading) = Reading::new(&file) else { return Ok(()) };
        let (tables, summary) = reading.run(1, window);
        check_tiles(&tables, &summary);
        check_windows(&tables, &summary);
    }

    #[test]
    fn readers_and_cuts_do_not_matter(records in records(), part in 0..100_i64) {
        let file = file(&records);
        let Some(reading) = Reading::new(&file) else { return Ok(()) };
        let (tables, summary) = reading.run(1, 100);
        let (again, _) = reading.run(3, 100);
        prop_assert_eq!(&tables.vcpu_states, &again.vcpu_states);
        prop_assert_eq!(&tables.windows, &again.windows);
        let (start, end) = span(&summary);
        let (in_two, _) = reading.run_in_two(start + (end - start) * part / 100, 100);
        prop_assert_eq!(&tables.vcpu_states, &in_two.vcpu_states);
        prop_assert_eq!(&tables.cpu_slices, &in_two.cpu_slices);
        prop_assert_eq!(&tables.domain_states, &in_two.domain_states);
        prop_assert_eq!(&tables.exits, &in_two.exits);
        prop_assert_eq!(&tables.windows, &in_two.windows);
        prop_assert_eq!(&tables.machines, &in_two.machines);
    }
}
