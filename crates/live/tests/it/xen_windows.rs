//! Xen's windows as they come are those of the recording, in all columns and to the nanosecond; and what
//! `windows` has no columns for adds up to them.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a failed expectation is the report"
)]

use std::{collections::BTreeMap, path::PathBuf};
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_engine::{
    Engine, LostCause, Options, Topology,
    topology::MachineInfo,
    xen::{CLOCK, XenSource},
};
use transect_live::{Snapshot, XenWindows};
use transect_model::{
    ids::{MachineId, VcpuId},
    state::{Metric, VcpuState},
    table::{Tables, Window},
};
use transect_xen::{CpuHz, Facts, Version};
use transect_xentrace::{XenTrace, XenVersion};

const HZ: u64 = 999_999_000;
const XEN: MachineId = MachineId(0);

fn file(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    std::fs::read(folder.join("../../testdata/succeed/xentrace").join(name)).unwrap()
}

fn facts(pcpus: u32) -> Facts {
    Facts {
        version: Version { major: 4, minor: 17, extra: String::new() },
        cpu_hz: CpuHz { hz: HZ, ..CpuHz::default() },
        cpu_count: pcpus,
        event_mask: 0x003f_f000,
        ..Facts::default()
    }
}

/// The recording's tables, with windows that begin where live ones do.
fn offline(bytes: &[u8], window_ns: i64) -> Tables {
    let trace = XenTrace::parse(bytes, XenVersion::Minor(17)).unwrap();
    let reference = Evidence::Reference { machine: XEN, clock: CLOCK.into() };
    let options = ClockOptions { tsc_hz: Some(HZ), ..ClockOptions::default() };
    let clocks = ClockGraph::from_evidence(&[reference], options).unwrap();
    let source = XenSource::new(&trace, XEN, "test");
    let machines = vec![MachineInfo::hypervisor(XEN, "xen")];
    let mut tables = Tables::default();
    Engine::new(Topology { machines, ..Topology::default() }, Options { window_ns })
        .with_aligned_windows()
        .run(source.inputs(&clocks).unwrap(), &mut tables)
        .unwrap();
    tables
}

/// All windows, of pieces of any size.
fn live(bytes: &[u8], pcpus: u32, window_ns: i64, seed: u64) -> Vec<Snapshot> {
    let mut source = XenWindows::new(facts(pcpus), window_ns.cast_unsigned()).unwrap();
    let mut state = seed;
    let (mut at, mut snapshots) = (0, Vec::new());
    while at < bytes.len() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let end = (at + (state >> 33) as usize % 9000 + 1).min(bytes.len());
        source.bytes(&bytes[at..end], i64::MAX).unwrap();
        at = end;
        if state >> 60 == 3
            && let Some(edge) = source.edge()
        {
            // In between it goes on as far as all pCPUs have told: here only what is surely there.
            source.advance(edge - 2 * window_ns).unwrap();
        }
        while source.is_complete() {
            snapshots.push(source.window(None).unwrap());
        }
    }
    snapshots
}

type Key = (i64, MachineId, Option<VcpuId>, Option<u32>);

fn by_key<'a>(rows: impl Iterator<Item = &'a Window>) -> BTreeMap<Key, &'a Window> {
    rows.map(|w| ((w.ts, w.machine_id, w.vcpu, w.cpu.map(|cpu| cpu.0)), w)).collect()
}

#[test]
fn windows_are_the_recordings() {
    for (name, pcpus, window_ns, seed) in [
        ("live/cap.bin", 1, 250_000_000, 7),
        ("live/net.bin", 2, 100_000_000, 1),
        ("live/net.bin", 2, 100_000_000, 99),
        ("live/life.bin", 2, 1_000_000_000, 3),
        ("live/top.bin", 1, 500_000_000, 11),
    ] {
        let bytes = file(name);
        let snapshots = live(&bytes, pcpus, window_ns, seed);
        assert!(snapshots.len() >= 2, "{name}: {}", snapshots.len());
        let tables = offline(&bytes, window_ns);
        let within = |w: &&Window| snapshots.iter().any(|s| s.ts == w.ts && s.dur == w.dur);
        let expected = by_key(tables.windows.iter().filter(within));
        // The hypervisor's own rows are those of its CPUs.
        let rows = snapshots.iter().flat_map(|s| s.actors.iter().map(|actor| &actor.window));
        let live = by_key(rows);
        // A recording has rows of pCPUs, with nothing in them, from before a domain first came there.
        let is_empty = |w: &Window| {
            w.cpu.is_some()
                && w.executions + w.exits + w.io_count + w.allocations == 0
                && w.gotten_ns + w.waited_ns + w.blocked_ns + w.offline_ns + w.unknown_ns == 0
        };
        let expected =
            expected.into_iter().filter(|(_, w)| !is_empty(w)).collect::<BTreeMap<_, _>>();
        let live = live.into_iter().filter(|(_, w)| !is_empty(w)).collect::<BTreeMap<_, _>>();
        let expected_domains: BTreeMap<_, _> = expected
            .iter()
            .filter(|(key, _)| key.1 != XEN && key.3.is_none())
            .map(|(key, w)| (*key, *w))
            .collect();
        let keys = |map: &BTreeMap<Key, &Window>| map.keys().copied().collect::<Vec<_>>();
        assert_eq!(keys(&live), keys(&expected_domains), "{name}");
        for (key, row) in &live {
            assert_eq!(*row, expected_domains[key], "{name}");
        }
        for snapshot in &snapshots {
            for cpu in &snapshot.cpus {
                let row = expected[&(snapshot.ts, XEN, None, Some(cpu.cpu.0))];
                let own = (cpu.busy_ns, cpu.idle_ns, cpu.unknown_ns);
                assert_eq!(own, (row.gotten_ns, row.blocked_ns, row.unknown_ns), "{name}");
            }
            assert_eq!(snapshot.cpus.len(), pcpus as usize, "{name}");
            adds_up(name, snapshot);
            waits_are_whole(name, snapshot, &tables);
        }
    }
}

/// What there is besides `windows` says nothing else.
fn adds_up(name: &str, snapshot: &Snapshot) {
    for actor in &snapshot.actors {
        let (w, d) = (&actor.window, &actor.detail);
        assert_eq!(w.waited_ns, d.preempted_ns + d.waking_ns, "{name} {w:?} {d:?}");
        let own = snapshot.antagonists.iter().filter(|row| {
            row.machine_id == w.machine_id && (w.vcpu.is_none() || row.vcpu == w.vcpu)
        });
        let behind: i64 = own.map(|row| row.ns).sum();
        assert_eq!(w.waited_ns, behind + d.unattributed_ns, "{name} {w:?}");
        let exits = snapshot.exits.iter().filter(|(row, _)| {
            row.machine_id == w.machine_id && (w.vcpu.is_none() || Some(row.vcpu) == w.vcpu)
        });
        let exits: u64 = exits.map(|(row, _)| row.count).sum();
        // An exit counts in `windows` where it begins and among the exits where it ends.
        assert!(exits.abs_diff(w.exits) <= 2 * d.threads, "{name}: {exits} {w:?}");
    }
    for thread in &snapshot.threads {
        let own = |w: &&Window| Some(w.machine_id) == thread.vm_machine_id && w.vcpu == thread.vcpu;
        let window = snapshot.actors.iter().map(|actor| &actor.window).find(own).unwrap();
        assert_eq!(thread.gotten_ns, window.gotten_ns);
        assert_eq!(thread.waited_ns, thread.preempted_ns + thread.waking_ns);
    }
}

/// Waits that ended in the window, reckoned from the recording's states.
fn waits_are_whole(name: &str, snapshot: &Snapshot, tables: &Tables) {
    let end = snapshot.ts + snapshot.dur;
    for actor in snapshot.actors.iter().filter(|actor| actor.window.vcpu.is_some()) {
        let own = |row: &&transect_model::table::VcpuStateRow| {
            row.machine_id == actor.window.machine_id && Some(row.vcpu) == actor.window.vcpu
        };
        let mut rows: Vec<_> = tables.vcpu_states.iter().filter(own).collect();
        rows.sort_by_key(|row| row.ts);
        let (mut count, mut longest, mut since) = (0, 0, None);
        for row in rows {
            let is_waiting = row.state.metric() == Metric::Waited;
            let ended_here = row.ts >= snapshot.ts && row.ts < end && !is_waiting;
            if let Some(begin) = since.filter(|_| ended_here && row.state != VcpuState::Unknown) {
                count += 1;
                longest = longest.max(row.ts - begin);
            }
            since = is_waiting.then(|| since.unwrap_or(row.ts));
        }
        let detail = &actor.detail;
        assert_eq!(
            (detail.waits, detail.wait_max_ns),
            (count, longest.cast_unsigned()),
            "{name} {detail:?}"
        );
        assert_eq!(actor.waits.count(), count);
    }
}

#[test]
fn what_is_missing_is_told() {
    let snapshots = live(&file("live/net.bin"), 2, 100_000_000, 5);
    let last = snapshots.last().unwrap();
    let has = |metric: &str| last.missing.iter().any(|missing| missing.metric == metric);
    for metric in ["block_io", "net_io", "pressure", "injections", "dom0_threads", "guest_time"] {
        assert!(has(metric), "{metric}: {:?}", last.missing);
    }
    // Its domains are PV: how long they were in the guest is not known, and is null.
    let pv = last.actors.iter().find(|actor| actor.window.vcpu.is_some()).unwrap();
    assert!(last.lacks("guest_ns", pv.window.machine_id));
    assert!(last.lacks("total_ns", pv.window.machine_id));
    assert!(
        !last.lacks("threads", pv.window.machine_id),
        "no metric is called as another's column"
    );
    assert!(!last.lacks("waited_ns", pv.window.machine_id) && !has("exits"));
}

/// xentrace sends rubbish, ends, and is started again: time is unknown, and nothing hangs or panics.
#[test]
fn a_torn_stream_is_told_and_goes_on() {
    let bytes = file("live/net.bin");
    let mut source = XenWindows::new(facts(2), 100_000_000).unwrap();
    let third = bytes.len() / 3;
    source.bytes(&bytes[..third], i64::MAX).unwrap();
    // The rest of a window is lost with its process; the next one begins with a whole one.
    source.restarted();
    source.hole(LostCause::XentraceEnded);
    source.bytes(&[0xff; 100], i64::MAX).unwrap();
    let whole = XenTrace::parse(&bytes, XenVersion::Minor(17)).unwrap();
    let starts = whole.cpus().flat_map(|cpu| whole.index().windows(cpu)).map(|w| w.at - 12);
    let next = starts.filter(|at| *at > 2 * third).min().unwrap();
    source.bytes(&bytes[next..], i64::MAX).unwrap();
    let mut snapshots = Vec::new();
    while source.is_complete() {
        snapshots.push(source.window(None).unwrap());
    }
    assert!(snapshots.len() > 3, "{}", snapshots.len());
    let last = snapshots.last().unwrap();
    let told = last.missing.iter().find(|missing| missing.metric == "records").unwrap();
    assert!(told.why.contains("100 bytes"), "{}", told.why);
    let unknown = |s: &Snapshot| s.cpus.iter().map(|cpu| cpu.unknown_ns).sum::<i64>();
    let hidden: i64 = snapshots.iter().map(unknown).sum();
    assert!(hidden > 100_000_000, "{hidden} ns of the hole are unknown");
    assert_eq!(unknown(last), 0, "and after it everything is known again");
}

#[test]
fn without_a_rate_there_is_no_time() {
    let error = XenWindows::new(Facts::default(), 1_000_000_000).err().unwrap();
    assert!(error.to_string().contains("TSC"), "{error}");
}
