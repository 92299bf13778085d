//! A sink that wants some tables gets those as ever, and no others; threads change nothing.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

mod dsl;

use dsl::random::{Streams, inputs, streams, topology};
use proptest::prelude::*;
use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use transect_engine::{Engine, Options};
use transect_model::table::{
    CpuSlice, Exit, ImportLog, Lost, Selected, Tables, VcpuStateRow, Window,
};

fn engine(threads: usize) -> Engine {
    let threads = NonZeroUsize::new(threads).unwrap();
    Engine::new(topology(true), Options { window_ns: 900 }).with_threads(threads)
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
