//! Every tracer arm for real, around a load whose events are counted; and nothing is left in the kernel.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests report by failing, and say what they skip"
)]

mod support;

use std::{fs, path::Path};
use support::{
    BLOCKS, CALL_EVENT, CALLS, ROUNDS, STRANGERS, be_the_load, drop_it, job, text, trace,
    trace_unread, trace_until,
};
use transect_bench_core::{
    Kind,
    protocol::{Param, TracerCost},
};
use transect_bench_tracers::registry;

/// Not a test: the process of the workload, which the tests start from this same binary.
#[test]
#[ignore = "it is the load of the other tests"]
fn the_load() {
    be_the_load();
}

/// Of an arm that can be told to trace one kind of system call: it counted exactly those.
fn expect_every_call(name: &str, more: &[(&str, Param)]) -> Option<TracerCost> {
    let params = [&[("events", text(CALL_EVENT))], more].concat();
    let cost = trace(name, &params, CALLS)?;
    let events = cost.events.unwrap();
    assert!((CALLS..CALLS + STRANGERS).contains(&events), "{name}: {cost:?}");
    assert_eq!(cost.lost_events, Some(0), "{name}: {cost:?}");
    expect_sane(name, &cost);
    Some(cost)
}

/// With the default events, of which the load makes at least so many.
fn expect_at_least(name: &str, more: &[(&str, Param)], events: u64) -> Option<TracerCost> {
    let cost = trace(name, more, CALLS)?;
    assert!(cost.events.unwrap() >= events, "{name}: {cost:?}");
    expect_sane(name, &cost);
    Some(cost)
}

/// CPU time of its processes, whenever.
fn cpu_ns(cost: &TracerCost) -> u64 {
    cost.consumer_cpu_ns.unwrap_or(0) + cost.closing_cpu_ns.unwrap_or(0)
}

fn expect_sane(name: &str, cost: &TracerCost) {
    assert!(!cost.version.is_empty(), "{name}: {cost:?}");
    assert!(cost.consumer_cpu_ns.is_some(), "{name}: {cost:?}");
}

#[test]
fn names_are_unique_and_everything_says_what_it_is() {
    let mut names: Vec<_> = registry().iter().map(|arm| arm.name()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    for arm in registry() {
        assert!(!arm.about().is_empty());
        let folder = arm.name().replace('-', "_");
        let readme = format!("{}/src/{folder}/README.md", env!("CARGO_MANIFEST_DIR"));
        let readme = std::fs::read_to_string(&readme).unwrap_or_else(|_| panic!("{readme}"));
        for (param, _, about) in arm.params() {
            assert!(!about.is_empty());
            assert!(readme.contains(&format!("`{param}`")), "{}: {param}", arm.name());
        }
    }
}

#[test]
fn unknown_parameters_are_refused_by_all() {
    // Nobody takes what it is given, and does nothing with it.
    for arm in registry().iter().filter(|arm| arm.name() != "none") {
        let refusal = arm.can_run(&job(arm.name(), &[("nonsense", Param::Int(1))])).unwrap_err();
        assert_eq!(refusal.kind, Kind::Plan, "{refusal}");
    }
}

#[test]
fn nobody_costs_nothing() {
    assert_eq!(trace("none", &[], CALLS), Some(TracerCost::default()));
}

#[test]
fn ftrace_to_disk() {
    let Some(cost) = expect_every_call("ftrace", &[]) else { return };
    assert!(cost.bytes.unwrap() > CALLS * 16, "{cost:?}");
    expect_at_least("ftrace", &[("buffer_kib", Param::Int(8192))], 2 * CALLS + 4 * ROUNDS);
    drop_it("ftrace");
}

#[test]
fn ftrace_as_a_flight_recorder() {
    // Smaller than what happens: what was overwritten counts as recorded.
    let Some(cost) = expect_every_call("ftrace-flight", &[("buffer_kib", Param::Int(64))]) else {
        return;
    };
    assert_eq!(cost.bytes, Some(0));
    drop_it("ftrace-flight");
}

#[test]
fn ftrace_idle() {
    let Some(cost) = trace("ftrace-idle", &[], CALLS) else { return };
    assert_eq!((cost.events, cost.lost_events), (Some(0), Some(0)));
    drop_it("ftrace-idle");
}

#[test]
fn trace_cmd() {
    let Some(cost) = expect_every_call("trace-cmd", &[]) else { return };
    assert!(cost.bytes.unwrap() > CALLS && cpu_ns(&cost) > 0, "{cost:?}");
    drop_it("trace-cmd");
}

#[test]
fn perf_to_disk() {
    let Some(cost) = expect_every_call("perf", &[("mmap_pages", Param::Int(8192))]) else { return };
    assert!(cost.bytes.unwrap() > CALLS * 32 && cpu_ns(&cost) > 0, "{cost:?}");
    drop_it("perf");
}

#[test]
fn perf_counting() {
    if expect_every_call("perf-count", &[]).is_some() {
        expect_at_least("perf-count", &[], 2 * CALLS + 4 * ROUNDS);
        drop_it("perf-count");
    }
}

#[test]
fn bpftrace() {
    if expect_every_call("bpftrace", &[]).is_some() {
        expect_at_least("bpftrace", &[], 2 * CALLS + 4 * ROUNDS);
        drop_it("bpftrace");
    }
}

#[test]
fn strace() {
    let Some(cost) = expect_at_least("strace", &[], CALLS + 4 * ROUNDS) else { return };
    assert!(cost.events.unwrap() < CALLS + 4 * ROUNDS + 3000, "{cost:?}");
    assert!(cost.consumer_cpu_ns > Some(0), "{cost:?}");
    drop_it("strace");
}

#[test]
fn transect_full() {
    let Some(cost) = expect_every_call("transect-full", &[]) else { return };
    assert!(cost.bytes.unwrap() > CALLS * 16, "{cost:?}");
    drop_it("transect-full");
}

#[test]
fn transect_compact() {
    // A system call that nothing comes between is one record, with its duration.
    let Some(cost) = expect_at_least("transect-compact", &[], CALLS + 4 * ROUNDS) else { return };
    assert!(cost.bytes.unwrap() > CALLS && cost.lost_events == Some(0), "{cost:?}");
    drop_it("transect-compact");
}

#[test]
fn transect_compact_records_with_no_other_collector() {
    let (name, params) = ("transect-compact", [("events", text(CALL_EVENT))]);
    let run = std::panic::catch_unwind(|| trace(name, &params, 1));
    match run {
        Ok(None) => {}
        Ok(Some(cost)) => panic!("the compact collector has no such event: {cost:?}"),
        Err(why) => {
            let why = why.downcast::<String>().unwrap();
            assert!(why.contains("made by another collector"), "{why}");
        }
    }
}

#[test]
fn transect_as_a_flight_recorder() {
    let snapshot = [("snapshot", Param::Bool(true))];
    if expect_at_least("transect-flight", &snapshot, CALLS + 4 * ROUNDS).is_some() {
        let cost = trace("transect-flight", &[], CALLS).unwrap();
        assert_eq!((cost.events, cost.bytes), (None, Some(0)));
        drop_it("transect-flight");
    }
}

#[test]
fn transect_idle() {
    let Some(cost) = trace("transect-idle", &[], CALLS) else { return };
    assert!(cost.events.unwrap() < 50 && cost.lost_events == Some(0), "{cost:?}");
    drop_it("transect-idle");
}

#[test]
fn transect_aggregate() {
    let Some(cost) = trace("transect-aggregate", &[("interval_ms", Param::Int(100))], CALLS) else {
        return;
    };
    assert_eq!((cost.events, cost.lost_events), (None, Some(0)), "{cost:?}");
    assert!(cost.bytes.unwrap() > 1000, "{cost:?}");
    drop_it("transect-aggregate");
}

#[test]
fn lttng_in_user_space() {
    let big = [("subbuffers", Param::Int(8)), ("subbuffer_kib", Param::Int(1024))];
    let Some(cost) = expect_at_least("lttng-ust", &big, 2 * BLOCKS) else { return };
    assert!(cost.lost_events == Some(0) && cpu_ns(&cost) > 0, "{cost:?}");
    drop_it("lttng-ust");
}

#[test]
fn lttng_in_the_kernel() {
    if expect_at_least("lttng-kernel", &[], 2 * CALLS + 4 * ROUNDS).is_some() {
        drop_it("lttng-kernel");
    }
}

#[test]
fn xentrace() {
    if let Some(cost) = trace("xentrace", &[], CALLS) {
        assert!(cost.events.unwrap() > 0, "{cost:?}");
        drop_it("xentrace");
    }
}

#[test]
fn the_control_appends() {
    const EACH: u64 = 100_000;
    let every = [("every_ms", Param::Int(50)), ("bytes", Param::Int(100_000))];
    let mut lengths = Vec::new();
    // An append that another one follows is one that it has said; whether it has said the last one is not known.
    let has_two_more = |folder: &Path| {
        lengths.push(fs::metadata(folder.join("appended")).unwrap().len());
        lengths.last().unwrap() / EACH >= lengths[0] / EACH + 2
    };
    let Some(cost) = trace_until("append-1mb", &every, has_two_more) else { return };
    assert_eq!((cost.events, cost.lost_events), (None, None));
    let more = lengths.last().unwrap() / EACH - lengths[0] / EACH - 1;
    let bytes = cost.bytes.unwrap();
    assert!(bytes >= more * EACH && bytes % EACH == 0, "{cost:?} {lengths:?}");
    drop_it("append-1mb");
}

/// What was recorded and what was lost are all that happened.
fn expect_all_accounted_for(name: &str, cost: &TracerCost, calls: u64) {
    let all = cost.events.unwrap() + cost.lost_events.unwrap();
    // perf counts records of forks and mappings that found no room, too.
    let others = if name == "perf" { calls / 4 } else { STRANGERS };
    assert!((calls..calls + others).contains(&all), "{name}: {all} of {calls}: {cost:?}");
}

/// Buffers that are too small: what is missing is told.
#[test]
fn losses_are_counted() {
    let calls = 400_000;
    for (name, small) in [
        ("ftrace", vec![("buffer_kib", Param::Int(8))]),
        ("perf", vec![("mmap_pages", Param::Int(1))]),
        ("transect-full", vec![("buffer_kib", Param::Int(8))]),
        ("trace-cmd", vec![("buffer_kib", Param::Int(8))]),
    ] {
        let params = [vec![("events", text(CALL_EVENT))], small].concat();
        let Some(cost) = trace_unread(name, &params, calls) else { continue };
        assert!(cost.lost_events.unwrap() > calls / 2, "{name}: {cost:?}");
        expect_all_accounted_for(name, &cost, calls);
        // With a CPU for the collector it is some of them, or none.
        expect_all_accounted_for(name, &trace(name, &params, calls).unwrap(), calls);
    }
    let small = [("subbuffers", Param::Int(2)), ("subbuffer_kib", Param::Int(4))];
    let Some(cost) = trace_unread("lttng-ust", &small, CALLS) else { return };
    assert!(cost.lost_events.unwrap() > BLOCKS, "{cost:?}");
}
