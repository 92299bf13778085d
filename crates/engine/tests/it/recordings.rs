//! Real recordings: states tile, and sums equal those reckoned from what trace-cmd prints.
//!
//! The peer is deliberately simple: it reads `trace-cmd report`'s text line by line and adds up, so
//! that it can be checked by looking at it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a failed expectation is the report; skipped files are told"
)]

use crate::dsl::{assert_tiles, per_actor};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};
use transect_clock::{ClockGraph, ClockOptions};
use transect_engine::{
    Engine, Options, Summary,
    dat::{DatSource, pair},
};
use transect_model::{
    ids::Tid,
    state::{Metric, ThreadState, VcpuState},
    table::Tables,
};
use transect_tracedat::TraceDat;

fn folder() -> PathBuf {
    testdata("tracedat")
}

fn testdata(folder: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed").join(folder)
}

/// The bytes of files of `testdata/succeed`.
pub(crate) fn bytes_of(folder: &str, names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| std::fs::read(testdata(folder).join(name)).unwrap()).collect()
}

fn run(names: &[&str]) -> (Tables, Summary) {
    run_in("tracedat", names)
}

/// The tables of the files of one recording.
pub(crate) fn run_in(folder: &str, names: &[&str]) -> (Tables, Summary) {
    let bytes = bytes_of(folder, names);
    let traces: Vec<_> = bytes.iter().map(|b| TraceDat::parse(b).unwrap()).collect();
    let files: Vec<_> = names.iter().copied().zip(&traces).collect();
    let pairing = pair(&files).unwrap();
    let clocks = ClockGraph::from_evidence(&pairing.evidence, ClockOptions::default()).unwrap();
    let sources: Vec<_> = files
        .iter()
        .zip(&pairing.machine_of_file)
        .map(|((name, trace), machine)| DatSource::new(trace, *machine, *name))
        .collect();
    let inputs = sources.iter().flat_map(|s| s.inputs(&clocks).unwrap()).collect();
    let mut tables = Tables::default();
    let engine = Engine::new(pairing.topology, Options::default()).with_clocks(&clocks);
    let summary = engine.run(inputs, &mut tables).unwrap();
    (tables, summary)
}

/// Every recording of the corpus, alone.
#[test]
fn everything_tiles() {
    let mut seen = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.ends_with(".dat") {
            continue;
        }
        let (tables, summary) = run(&[&name]);
        let span = summary.span.unwrap();
        assert!(summary.events > 0, "{name}");
        for (actor, intervals) in per_actor(&tables) {
            if actor.starts_with("thread") {
                let inside = intervals.iter().all(|i| i.0 >= span.start.get());
                assert!(inside && intervals.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
            } else {
                let what = format!("{name}: {actor}");
                assert_tiles(&what, intervals, span.start.get(), span.end.get());
            }
        }
        seen += 1;
    }
    assert!(seen >= 10, "only {seen} recordings found");
}

/// What lost events hide is unknown; their counts are the ring buffer's.
#[test]
fn lost_events_are_unknown() {
    for name in ["lost-slow.dat", "lost-overwritten.dat"] {
        let (tables, summary) = run(&[name]);
        assert!(summary.holes > 0 && summary.lost_events > 0, "{name}");
        for lost in &tables.lost {
            let mine = tables.cpu_slices.iter().filter(|s| Some(s.cpu) == lost.cpu);
            let known = mine
                .filter(|s| s.tid.is_some())
                .any(|s| s.ts < lost.ts + lost.dur && s.ts + s.dur > lost.ts);
            assert!(!known, "{name}: a slice is known inside {lost:?}");
        }
    }
}

/// One line of trace-cmd's text.
struct Line {
    tid: i32,
    cpu: u32,
    ts: i64,
    event: String,
    fields: String,
}

impl Line {
    /// `  comm-TID [CPU]  TS: event: fields`
    fn parse(line: &str) -> Option<Line> {
        let (head, rest) = line.split_once(" [")?;
        let (cpu, rest) = rest.split_once(']')?;
        let (ts, rest) = rest.split_once(':')?;
        let (event, fields) = rest.split_once(':')?;
        Some(Line {
            tid: head.trim_end().rsplit_once('-')?.1.parse().ok()?,
            cpu: cpu.parse().ok()?,
            ts: ts.trim().parse().ok()?,
            event: event.trim().to_owned(),
            fields: fields.trim().to_owned(),
        })
    }

    fn number(&self, name: &str) -> i64 {
        let key = format!(" {name}=");
        let fields = format!(" {}", self.fields);
        let value = fields.split(&key).nth(1).unwrap().split(' ').next().unwrap();
        value.parse().unwrap()
    }
}

fn report(name: &str) -> Vec<Line> {
    let packed = std::fs::read(folder().join(name)).unwrap();
    let text = zstd::decode_all(packed.as_slice()).unwrap();
    String::from_utf8_lossy(&text).lines().filter_map(Line::parse).collect()
}

/// Time on a CPU until `end`, by thread, from the switches alone.
fn on_cpu(lines: &[Line], end: i64) -> BTreeMap<i32, i64> {
    let start = lines[0].ts;
    let mut sums: BTreeMap<i32, i64> = BTreeMap::new();
    let mut since: BTreeMap<u32, (i32, i64)> = BTreeMap::new();
    for line in lines.iter().filter(|l| l.event == "sched_switch" && l.ts < end) {
        let prev = i32::try_from(line.number("prev_pid")).unwrap();
        let next = i32::try_from(line.number("next_pid")).unwrap();
        let (tid, from) = since.insert(line.cpu, (next, line.ts)).unwrap_or((prev, start));
        assert_eq!(tid, prev);
        *sums.entry(tid).or_default() += line.ts - from;
    }
    for (tid, from) in since.into_values() {
        *sums.entry(tid).or_default() += end - from;
    }
    sums.remove(&0);
    sums
}

/// How much of [ts, ts + dur) lies before `end`.
fn before(end: i64, ts: i64, dur: i64) -> i64 {
    (end.min(ts + dur) - ts).max(0)
}

/// Guest mode from entry to exit, by thread.
fn guest_mode(lines: &[Line]) -> BTreeMap<i32, Vec<(i64, i64)>> {
    let mut intervals: BTreeMap<i32, Vec<(i64, i64)>> = BTreeMap::new();
    let mut entered: BTreeMap<i32, i64> = BTreeMap::new();
    for line in lines {
        match line.event.as_str() {
            "kvm_entry" => drop(entered.insert(line.tid, line.ts)),
            "kvm_exit" => {
                if let Some(from) = entered.remove(&line.tid) {
                    intervals.entry(line.tid).or_default().push((from, line.ts));
                }
            }
            _ => {}
        }
    }
    intervals
}

#[test]
fn a_pair_agrees_with_trace_cmd() {
    let (tables, summary) = run(&["pair-host.dat", "pair-guest.dat"]);
    let host = report("pair-host.report.zst");
    let guest = report("pair-guest.report.zst");
    assert_eq!(summary.contradictions, 1, "a thread goes on after its CPU's data was cut off");

    let mut exits: BTreeMap<i64, usize> = BTreeMap::new();
    for line in host.iter().filter(|l| l.event == "kvm_exit") {
        *exits.entry(line.number("exit_reason")).or_default() += 1;
    }
    let mut rows: BTreeMap<i64, usize> = BTreeMap::new();
    for exit in &tables.exits {
        *rows.entry(i64::from(exit.reason.code)).or_default() += 1;
    }
    assert_eq!(rows, exits);

    // The recording was cut page by page: only until the first CPU's end all CPUs are there.
    let cpus: BTreeSet<u32> = host.iter().map(|l| l.cpu).collect();
    let last_of = |cpu: &u32| host.iter().rfind(|l| l.cpu == *cpu).unwrap().ts;
    let end = cpus.iter().map(last_of).min().unwrap();
    let running = |tid: i32| -> i64 {
        let mine = tables.thread_states.iter().filter(|r| r.machine_id.0 == 0 && r.tid.0 == tid);
        let running = mine.filter(|r| r.state == ThreadState::Running);
        running.map(|r| before(end, r.ts, r.dur)).sum()
    };
    let on_cpu = on_cpu(&host, end);
    assert!(on_cpu.len() > 10);
    for (tid, ns) in &on_cpu {
        assert_eq!(running(*tid), *ns, "time on CPUs of thread {tid}");
    }

    let intervals = guest_mode(&host);
    for vcpu in &tables.vcpus {
        let tid = vcpu.vmm_tid.unwrap().0;
        let time = |is: &dyn Fn(VcpuState) -> bool| -> i64 {
            let mine = tables.vcpu_states.iter().filter(|r| r.vcpu == vcpu.vcpu && is(r.state));
            mine.map(|r| before(end, r.ts, r.dur)).sum()
        };
        assert_eq!(time(&|s| s.metric() == Metric::Gotten), on_cpu[&tid]);
        let told: i64 = intervals[&tid].iter().map(|i| before(end, i.0, i.1 - i.0)).sum();
        assert_eq!(time(&|s| s == VcpuState::Guest), told, "guest mode of vCPU {}", vcpu.vcpu);
    }

    // The guest's report is in the host's time already: trace-cmd applies the file's TIME_SHIFT.
    let thread_of = |cpu: u32| {
        let vcpu = tables.vcpus.iter().find(|v| v.vcpu.0 == cpu);
        vcpu.and_then(|v| v.vmm_tid).map(|Tid(tid)| tid).unwrap()
    };
    let inside = guest
        .iter()
        .filter(|l| intervals[&thread_of(l.cpu)].iter().any(|i| (i.0..=i.1).contains(&l.ts)));
    let check = &tables.clock_check[0];
    assert_eq!(check.outside, 0);
    assert_eq!(check.tested + check.untested, u64::try_from(guest.len()).unwrap());
    assert!(check.inside >= u64::try_from(inside.count()).unwrap());
    assert!(check.inside > 100 && check.slack_later_ns > 0 && check.slack_earlier_ns > 0);
}

/// Block requests of a real guest, reckoned from the text: insert, issue and completion by sector.
#[test]
fn requests_agree_with_trace_cmd() {
    let (tables, _) = run(&["pair-guest.dat"]);
    let lines = report("pair-guest.report.zst");
    let of = |event: &str, number: &dyn Fn(&Line) -> i64| -> BTreeMap<i64, i64> {
        let mine = lines.iter().filter(|l| l.event == event);
        mine.map(|l| (l.number("sector"), number(l))).collect()
    };
    let (inserted, issued) = (of("block_rq_insert", &|l| l.ts), of("block_rq_issue", &|l| l.ts));
    let completed = of("block_rq_complete", &|l| l.ts);
    let submitters = of("block_rq_insert", &|l| i64::from(l.tid));
    assert!(completed.len() > 50);
    assert_eq!(tables.block_io.len(), completed.len());
    for row in &tables.block_io {
        let sector = i64::try_from(row.sector).unwrap();
        assert_eq!(row.dur, Some(completed[&sector] - inserted[&sector]), "{row:?}");
        assert_eq!(row.issue_ns, Some(issued[&sector] - inserted[&sector]), "{row:?}");
        assert_eq!(i64::from(row.tid.0), submitters[&sector], "{row:?}");
        assert_eq!((row.device.to_string().as_str(), row.error), ("254:0", Some(0)));
        assert_eq!((row.op.as_str(), row.bytes % 4096), ("write", 0));
    }
    assert_eq!(tables.counters.last().unwrap().value, Some(0), "nothing is left in flight");
}
