//! A sink that wants some tables gets those as ever, and no others; threads change nothing.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_wrap,
    reason = "a failed expectation is the report; counts are small"
)]

use crate::dsl::random::{Streams, inputs, streams, topology};
use proptest::prelude::*;
use std::{
    collections::BTreeMap,
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use transect_engine::{Engine, Options};
use transect_model::{
    ids::{CpuId, MachineId, VcpuId},
    table::{CpuSlice, Exit, ImportLog, Lost, Selected, Tables, VcpuStateRow, Window},
    time::{Span, Timestamp},
};

fn engine(threads: usize) -> Engine {
    let threads = NonZeroUsize::new(threads).unwrap();
    Engine::new(topology(true), Options { window_ns: 900 }).with_threads(threads)
}

fn windows_in(streams: &Streams, window_ns: i64, from: i64, until: i64) -> Vec<Window> {
    let stretch = Span { start: Timestamp::new(from), end: Timestamp::new(until) };
    let mut sink = Selected::new(&[Window::TABLE]);
    let engine = Engine::new(topology(true), Options { window_ns }).with_windows_in(stretch);
    engine.run(inputs(streams), &mut sink).unwrap();
    sink.into_tables().windows
}

type Actor = (MachineId, Option<VcpuId>, Option<CpuId>, Option<String>);

/// What can be added up, of each actor that did anything.
fn sums(windows: &[Window]) -> BTreeMap<Actor, Vec<i64>> {
    let mut sums: BTreeMap<Actor, Vec<i64>> = BTreeMap::new();
    for w in windows {
        let counts = [w.executions, w.allocations, w.io_count, w.exits].map(|n| n as i64);
        let times = [w.dur, w.gotten_ns, w.waited_ns, w.blocked_ns, w.offline_ns, w.unknown_ns];
        let rest = [w.guest_ns, w.halted_ns, w.steal_ns];
        let all = counts.into_iter().chain(times).chain(rest);
        let sum = sums.entry((w.machine_id, w.vcpu, w.cpu, w.cgroup.clone())).or_default();
        sum.resize(13, 0);
        sum.iter_mut().zip(all).for_each(|(sum, n)| *sum += n);
    }
    sums.retain(|_, sum| sum.iter().any(|n| *n != 0));
    sums
}

fn all(streams: &Streams, threads: usize) -> Tables {
    let mut tables = Tables::default();
    engine(threads).run(inputs(streams), &mut tables).unwrap();
    tables
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn chosen_tables_are_those_of_the_whole(streams in streams(true, false)) {
        let whole = all(&streams, 1);
        let some = [&[Window::TABLE, Exit::TABLE][..], &[CpuSlice::TABLE, VcpuStateRow::TABLE]];
        for wanted in some {
            let mut sink = Selected::new(wanted);
            engine(1).run(inputs(&streams), &mut sink).unwrap();
            let wants = |name| wanted.iter().any(|table| table.name == name);
            let expected = Tables {
                windows: if wants("windows") { whole.windows.clone() } else { vec![] },
                exits: if wants("exits") { whole.exits.clone() } else { vec![] },
                cpu_slices: if wants("cpu_slices") { whole.cpu_slices.clone() } else { vec![] },
                vcpu_states: if wants("vcpu_states") { whole.vcpu_states.clone() } else { vec![] },
                ..Tables::default()
            };
            prop_assert_eq!(sink.into_tables(), expected);
        }
    }

    /// Between two borders of windows there are those windows; and the sums of both sides of any
    /// moment are the whole's.
    #[test]
    fn windows_of_a_stretch_are_its_own(
        streams in streams(true, false),
        first in 0..4i64,
        count in 1..4i64,
        moment in 1..9_000i64,
    ) {
        let whole = all(&streams, 1);
        let Some(start) = whole.windows.iter().map(|w| w.ts).min() else { return Ok(()) };
        let (from, until) = (start + first * 900, start + (first + count) * 900);
        let part = windows_in(&streams, 900, from, until);
        let inside = whole.windows.iter().filter(|w| from <= w.ts && w.ts < until);
        prop_assert_eq!(sums(&part), sums(&inside.cloned().collect::<Vec<_>>()));
        prop_assert!(part.iter().all(|w| (w.ts - from) % 900 == 0 && w.ts + w.dur <= until));
        let cut = start + moment;
        let one = windows_in(&streams, 1 << 40, start, i64::MAX);
        let mut sides = windows_in(&streams, 1 << 40, i64::MIN, cut);
        sides.extend(windows_in(&streams, 1 << 40, cut, i64::MAX));
        prop_assert_eq!(sums(&sides), sums(&one));
    }

    #[test]
    fn threads_change_no_row(streams in streams(true, true), threads in 2..7usize) {
        prop_assert_eq!(all(&streams, threads), all(&streams, 1));
    }

    #[test]
    fn progress_ends_at_the_number_of_events(streams in streams(false, false)) {
        let events = Arc::new(AtomicU64::new(0));
        let mut sink = Selected::new(&[Lost::TABLE, ImportLog::TABLE]);
        let engine = engine(2).with_progress(Arc::clone(&events));
        let summary = engine.run(inputs(&streams), &mut sink).unwrap();
        prop_assert_eq!(events.load(Ordering::Relaxed), summary.events);
    }
}
