//! Whatever the events say: states tile time, sums are exact, nothing panics.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::unwrap_used,
    reason = "a handful of actors; a failed expectation is the report"
)]

use crate::dsl::{
    assert_tiles, per_actor,
    random::{GUEST_CPUS, HOST_CPUS, Streams, inputs, streams, topology},
};
use proptest::prelude::*;
use transect_engine::{Engine, Options, StreamItem, Summary};
use transect_model::{
    event::CoreEvent,
    ids::Tid,
    state::{Metric, ThreadState},
    table::Tables,
};

fn run(streams: &Streams, known: bool, window_ns: i64) -> (Tables, Summary) {
    let mut tables = Tables::default();
    let engine = Engine::new(topology(known), Options { window_ns });
    let summary = engine.run(inputs(streams), &mut tables).unwrap();
    (tables, summary)
}

fn span(summary: &Summary) -> (i64, i64) {
    summary.span.map_or((0, 0), |span| (span.start.get(), span.end.get()))
}

fn check_tiles(tables: &Tables, summary: &Summary, known: bool, lives: bool) {
    let (start, end) = span(summary);
    let actors = per_actor(tables);
    assert_eq!(start == end, tables.vcpu_states.is_empty() && tables.cpu_slices.is_empty());
    for (actor, intervals) in actors {
        if !actor.starts_with("thread") {
            assert_tiles(&actor, intervals, start, end);
            continue;
        }
        if !lives {
            // A thread that is known from events only exists from the first sign of it on.
            let first = intervals[0].0;
            assert!(first >= start, "{actor} in [{start}, {end}): {intervals:?}");
            assert_tiles(&actor, intervals, first, end);
            continue;
        }
        let inside = |i: &(i64, i64)| i.0 >= start && i.0 + i.1 <= end && i.1 > 0;
        assert!(intervals.iter().all(inside), "{actor} in [{start}, {end}): {intervals:?}");
        assert!(intervals.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{intervals:?}");
    }
    for row in tables.thread_states.iter().filter(|_| known) {
        let runs_on_vcpu = row.machine_id.0 == 1
            && row.state == ThreadState::Running
            && row.cpu.is_some_and(|cpu| cpu.0 < GUEST_CPUS);
        assert_eq!(row.effective.is_some(), runs_on_vcpu, "{row:?}");
    }
}

fn check_windows(tables: &Tables, summary: &Summary, lives: bool) {
    let (start, end) = span(summary);
    let vcpus = tables.vcpus.len() as i64;
    for window in &tables.windows {
        let sum = window.gotten_ns
            + window.waited_ns
            + window.blocked_ns
            + window.offline_ns
            + window.unknown_ns;
        match (window.vcpu, &window.cgroup) {
            (Some(_), _) => assert_eq!(sum, window.dur),
            (None, None) => {
                let mine = tables.vcpus.iter().filter(|v| v.machine_id == window.machine_id);
                assert_eq!(sum, window.dur * mine.count() as i64);
            }
            (None, Some(_)) if !lives => assert_eq!(sum % window.dur, 0),
            (None, Some(_)) => {}
        }
    }
    let of_vcpus = || tables.windows.iter().filter(|w| w.vcpu.is_some());
    assert_eq!(of_vcpus().map(|w| w.dur).sum::<i64>(), (end - start) * vcpus);
    for metric in [Metric::Gotten, Metric::Waited, Metric::Blocked, Metric::Offline] {
        let states = tables.vcpu_states.iter().filter(|r| r.state.metric() == metric);
        let expected: i64 = states.map(|r| r.dur).sum();
        let got: i64 = of_vcpus()
            .map(|w| match metric {
                Metric::Gotten => w.gotten_ns,
                Metric::Waited => w.waited_ns,
                Metric::Blocked => w.blocked_ns,
                Metric::Offline => w.offline_ns,
                Metric::Unknown => w.unknown_ns,
            })
            .sum();
        assert_eq!(got, expected, "{metric:?}");
    }
}

fn is_exit(item: &StreamItem) -> bool {
    matches!(item, StreamItem::Event { tid: Tid(4 | 5), event: CoreEvent::KvmExit { .. }, .. })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Threads that live throughout: everything tiles the whole span.
    #[test]
    fn states_tile_time(streams in streams(false, false), known: bool, window in 1..5000i64) {
        let (tables, summary) = run(&streams, known, window);
        check_tiles(&tables, &summary, known, false);
        check_windows(&tables, &summary, false);
    }

    /// Threads come and go, numbers are reused.
    #[test]
    fn states_tile_lives(streams in streams(true, false), known: bool) {
        let (tables, summary) = run(&streams, known, 1000);
        check_tiles(&tables, &summary, known, true);
        check_windows(&tables, &summary, true);
    }

    /// Stamps from broken input: nothing panics, tiles stay tiles.
    #[test]
    fn wild_stamps(streams in streams(true, true), known: bool) {
        let (tables, summary) = run(&streams, known, 1_000_000_000_000_000);
        check_tiles(&tables, &summary, known, true);
    }

    /// Every exit of a known vCPU's thread is one row.
    #[test]
    fn every_exit_is_a_row(streams in streams(true, false)) {
        let (tables, _) = run(&streams, true, 1000);
        let host = &streams[..HOST_CPUS as usize];
        let exits = host.iter().flatten().filter(|i| is_exit(i)).count();
        let rows = tables.exits.iter().filter(|e| e.machine_id.0 == 1 && e.vcpu.0 < 2);
        prop_assert!(rows.count() >= exits);
    }
}
