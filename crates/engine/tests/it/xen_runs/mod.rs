//! Runs an xentrace file through the engine, and says of its rows what xenalyze says of the file:
//! it begins with the record that brings a vCPU onto a pCPU, leaves the interval open at the end
//! out unless the vCPU runs then, and counts a running interval anew at each
//! `sched_continue_running` (`vcpu_start`, `deactivate_pcpu` and `sched_runstate_process` of
//! `tools/xentrace/xenalyze.c`, Xen 4.17).

#![allow(dead_code, clippy::expect_used, reason = "test code; each user takes what it needs")]

use std::collections::BTreeMap;
use transect_clock::{ClockGraph, ClockOptions, Evidence};
use transect_engine::{
    Engine, Options, Summary, Topology,
    topology::MachineInfo,
    xen::{CLOCK, XenSource},
};
use transect_model::{
    ids::{CpuId, MachineId},
    state::{Metric, VcpuState},
    table::Tables,
};
use transect_xentrace::{Runstate, XenEvent, XenTrace, XenVersion};

pub(crate) struct Run {
    pub(crate) tables: Tables,
    pub(crate) summary: Summary,
    pub(crate) edges: BTreeMap<(u32, u32), Edges>,
    hz: u64,
}

/// What xenalyze takes of a vCPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Edges {
    /// When it first came onto a pCPU; of one that a record says to go on running, when its pCPU's
    /// records began.
    first: Option<i64>,
    /// Its last record; of one that runs then, the last of its pCPU's.
    last: i64,
    /// When records only said that it goes on running.
    continued: Vec<i64>,
    last_change: i64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    pub(crate) count: u64,
    pub(crate) ns: i64,
}

/// Trace time of a stamp, as the clock graph makes it of this rate.
fn converter(hz: u64) -> ClockGraph {
    let reference = Evidence::Reference { machine: MachineId(0), clock: CLOCK.into() };
    let options = ClockOptions { tsc_hz: Some(hz), ..ClockOptions::default() };
    ClockGraph::from_evidence(&[reference], options).expect("a clock")
}

pub(crate) fn run(file: &[u8], hz: u64) -> Run {
    let trace = XenTrace::parse(file, XenVersion::Minor(17)).expect("an xentrace file");
    let clocks = converter(hz);
    let source = XenSource::new(&trace, MachineId(0), "test.bin");
    let mut hypervisor = MachineInfo::hypervisor(MachineId(0), "xen");
    hypervisor.clock = Some(CLOCK.into());
    let topology = Topology { machines: vec![hypervisor], ..Topology::default() };
    let mut tables = Tables::default();
    let inputs = source.inputs(&clocks).expect("inputs");
    let summary = Engine::new(topology, Options::default())
        .with_remarks(source.remarks())
        .with_clocks(&clocks)
        .run(inputs, &mut tables)
        .expect("a run");
    Run { tables, summary, edges: edges(&trace, &clocks), hz }
}

/// What of a vCPU's records matters for its edges.
struct Change {
    t: i64,
    cpu: CpuId,
    vcpu: (u32, u32),
    new: Runstate,
    continued: bool,
}

fn edges(trace: &XenTrace<'_>, clocks: &ClockGraph) -> BTreeMap<(u32, u32), Edges> {
    let mut changes = Vec::new();
    let mut spans: BTreeMap<CpuId, (i64, i64)> = BTreeMap::new();
    for cpu in trace.cpus() {
        let clock = clocks.converter(MachineId(0), cpu).expect("a clock");
        for record in trace.stream(cpu) {
            let t = clock.trace_only(transect_model::time::Timestamp::new(record.tsc));
            let t = t.expect("a stamp").get();
            spans.entry(cpu).or_insert((t, t)).1 = t;
            let (vcpu, new, continued) = match record.typed() {
                XenEvent::RunstateChange { vcpu, new, .. } => (vcpu, new, false),
                XenEvent::ContinueRunning { vcpu } => (vcpu, Runstate::Running, true),
                // Whoever runs when records begin again comes onto the pCPU then.
                XenEvent::Lost(lost) => (lost.current, Runstate::Running, false),
                _ => continue,
            };
            let vcpu = (vcpu.dom.into(), vcpu.vcpu.into());
            changes.push(Change { t, cpu, vcpu, new, continued });
        }
    }
    changes.sort_by_key(|change| change.t);
    let mut edges: BTreeMap<(u32, u32), Edges> = BTreeMap::new();
    for Change { t, cpu, vcpu, new, continued } in changes {
        let edge = edges.entry(vcpu).or_default();
        match edge.first {
            None if new == Runstate::Running => {
                edge.first = Some(if continued { spans[&cpu].0 } else { t });
            }
            Some(_) if continued && t > edge.last_change => edge.continued.push(t),
            _ => {}
        }
        edge.last_change = t;
        edge.last = if new == Runstate::Running { spans[&cpu].1 } else { t };
    }
    edges
}

/// The word xenalyze has for a state's runstate.
fn runstate(state: VcpuState) -> &'static str {
    match (state, state.metric()) {
        (VcpuState::Waking, _) => "wake",
        (VcpuState::Preempted, _) => "preempt",
        (_, Metric::Gotten) => "running",
        (_, Metric::Blocked) => "blocked",
        (_, Metric::Offline) => "offline",
        _ => "lost",
    }
}

fn domid(run: &Run, id: MachineId) -> Option<u32> {
    run.tables.machines.iter().find(|machine| machine.machine_id == id)?.domid
}

/// Of each vCPU, what each runstate took: `d1v0`, then by xenalyze's word.
pub(crate) fn vcpus(run: &Run) -> BTreeMap<String, BTreeMap<&'static str, Sum>> {
    let mut sums: BTreeMap<String, BTreeMap<&'static str, Sum>> = BTreeMap::new();
    let mut open: BTreeMap<String, &'static str> = BTreeMap::new();
    let mut rows: Vec<_> = run.tables.vcpu_states.iter().collect();
    rows.sort_by_key(|row| row.ts);
    for row in rows {
        let Some(dom) = domid(run, row.machine_id) else { continue };
        let edges = run.edges.get(&(dom, row.vcpu.0)).cloned().unwrap_or_default();
        let Some(first) = edges.first else { continue };
        let (from, to) = (row.ts.max(first), (row.ts + row.dur).min(edges.last));
        if to <= from {
            continue;
        }
        let name = format!("d{dom}v{}", row.vcpu);
        let word = runstate(row.state);
        let sum = sums.entry(name.clone()).or_default().entry(word).or_default();
        sum.ns += to - from;
        if open.insert(name, word) != Some(word) {
            sum.count += 1;
        }
    }
    for ((dom, vcpu), edges) in &run.edges {
        if let Some(sums) = sums.get_mut(&format!("d{dom}v{vcpu}")) {
            let inside = edges.continued.iter().filter(|t| **t < edges.last).count();
            sums.entry("running").or_default().count += inside as u64;
        }
    }
    sums
}

/// Of each domain, what each of its states took in all.
pub(crate) fn domains(run: &Run) -> Vec<(String, &'static str, Sum)> {
    let mut sums: BTreeMap<(u32, &'static str), Sum> = BTreeMap::new();
    for row in &run.tables.domain_states {
        let Some(dom) = domid(run, row.machine_id) else { continue };
        let sum = sums.entry((dom, row.state.as_str())).or_default();
        sum.count += 1;
        sum.ns += row.dur;
    }
    sums.into_iter().map(|((dom, state), sum)| (format!("d{dom}"), state, sum)).collect()
}

/// Of each pCPU, how long it ran vCPUs and how long it was idle.
pub(crate) fn pcpus(run: &Run) -> Vec<(CpuId, &'static str, Sum)> {
    let mut sums: BTreeMap<(CpuId, &'static str), Sum> = BTreeMap::new();
    for row in &run.tables.cpu_slices {
        let state = match (row.vcpu, row.tid) {
            (Some(_), _) => "running",
            (None, Some(_)) => "idle",
            (None, None) => "unknown",
        };
        let sum = sums.entry((row.cpu, state)).or_default();
        sum.count += 1;
        sum.ns += row.dur;
    }
    sums.into_iter().map(|((cpu, state), sum)| (cpu, state, sum)).collect()
}

/// Of each vCPU, what each of its states took over the whole recording.
pub(crate) fn states(run: &Run) -> Vec<(String, String, u64, i64)> {
    let mut sums: BTreeMap<(String, String), Sum> = BTreeMap::new();
    for row in &run.tables.vcpu_states {
        let dom = domid(run, row.machine_id).unwrap_or(u32::MAX);
        let reason = row.reason.map(|reason| format!(":{reason}")).unwrap_or_default();
        let key = (format!("d{dom}v{}", row.vcpu), format!("{}{reason}", row.state.as_str()));
        let sum = sums.entry(key).or_default();
        sum.count += 1;
        sum.ns += row.dur;
    }
    sums.into_iter().map(|((name, state), sum)| (name, state, sum.count, sum.ns)).collect()
}
