//! Who woke whom in a real nested recording: no thread that an interrupt only interrupted.
//!
//! The peer reads each `sched_waking` record's `common_flags` and keeps the open handlers of its CPU,
//! with nothing of the engine.

#![allow(clippy::unwrap_used, reason = "a failed expectation is the report")]

use crate::{
    dsl::{Story, thread_states, wakeups as wakeup_rows},
    recordings::{bytes_of, run_in},
};
use std::collections::BTreeMap;
use transect_model::{ids::MachineId, interrupt::Context, table::Tables};
use transect_tracedat::{Item, TraceDat};

const FILES: [&str; 2] = ["host.dat", "guest.dat"];
const HOST: MachineId = MachineId(0);
const GUEST: MachineId = MachineId(1);

/// Wakings of a file by the context that their flags tell and whether a handler was open.
fn wakings(trace: &TraceDat<'_>) -> BTreeMap<(&'static str, bool), usize> {
    let events = trace.events();
    let id = |system, name| events.find(system, name).map(|event| event.id);
    let waking = id("sched", "sched_waking");
    let hard = (id("irq", "irq_handler_entry"), id("irq", "irq_handler_exit"));
    let soft = (id("irq", "softirq_entry"), id("irq", "softirq_exit"));
    let mut counts = BTreeMap::new();
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let mut stream = trace.stream(buffer, cpu).unwrap();
            let (mut lines, mut softirqs) = (0_i32, 0_i32);
            while let Some(item) = stream.next() {
                let Item::Event { payload, .. } = item else { continue };
                let id = events.id_of(payload);
                match id {
                    id if id == hard.0 => lines += 1,
                    id if id == hard.1 => lines -= 1,
                    id if id == soft.0 => softirqs = 1,
                    id if id == soft.1 => softirqs = 0,
                    id if id == waking => {
                        let context = match payload[2] {
                            flags if flags & 0x40 != 0 => "nmi",
                            flags if flags & 0x08 != 0 => "irq",
                            flags if flags & 0x10 != 0 => "softirq",
                            _ => "task",
                        };
                        let is_open = lines > 0 || (softirqs > 0 && context == "softirq");
                        *counts.entry((context, is_open)).or_default() += 1;
                    }
                    _ => {}
                }
            }
        }
    }
    counts
}

/// Wakeups of a machine by context and whether the handler is named.
fn wakeups(tables: &Tables, machine: MachineId) -> BTreeMap<(&'static str, bool), usize> {
    let mut counts = BTreeMap::new();
    for row in tables.wakeups.iter().filter(|row| row.machine_id == machine) {
        let context = row.context.map_or("unknown", Context::as_str);
        *counts.entry((context, row.source.is_some())).or_default() += 1;
    }
    counts
}

#[test]
fn no_interrupt_is_blamed_on_the_thread_that_it_interrupted() {
    let bytes = bytes_of("nested", &FILES);
    let traces: Vec<_> = bytes.iter().map(|bytes| TraceDat::parse(bytes).unwrap()).collect();
    let host = wakings(&traces[0]);
    let expected = [
        (("irq", false), 3_000),
        (("irq", true), 132),
        (("softirq", false), 42),
        (("softirq", true), 340),
        (("task", false), 1_196),
    ];
    assert_eq!(host, BTreeMap::from(expected), "host");
    let expected = [
        (("irq", false), 249),
        (("irq", true), 152),
        (("softirq", false), 18),
        (("softirq", true), 89),
        (("task", false), 170),
    ];
    assert_eq!(wakings(&traces[1]), BTreeMap::from(expected), "guest");

    let (tables, _) = run_in("nested", &FILES);
    for row in &tables.wakeups {
        let context = row.context.unwrap();
        assert_eq!(row.waker_tid.is_some(), context == Context::Task, "{row:?}");
        assert!(row.source.is_none() || context.is_interrupt(), "{row:?}");
        assert_eq!(row.source.is_some(), row.vector.is_some(), "{row:?}");
    }
    for row in tables.thread_states.iter().filter(|row| row.is_woken()) {
        let context = row.waker_context.unwrap();
        assert_eq!(row.waker_tid.is_some(), context == Context::Task, "{row:?}");
    }
    let expected = [
        (("irq", false), 2_930),
        (("irq", true), 132),
        (("softirq", false), 41),
        (("softirq", true), 339),
        (("task", false), 1_206),
    ];
    assert_eq!(wakeups(&tables, HOST), BTreeMap::from(expected), "host");
    let expected = [
        (("irq", false), 245),
        (("irq", true), 152),
        (("softirq", false), 18),
        (("softirq", true), 88),
        (("task", false), 175),
    ];
    assert_eq!(wakeups(&tables, GUEST), BTreeMap::from(expected), "guest");
}

/// One CPU, thread 7 on it: what wakes 5 there, and who is named for it.
fn story(events: &str) -> (Vec<String>, Vec<String>) {
    let around = format!(
        "host 0 1000 5 sched_switch 5 S 7
         {events}
         host 0 1900 7 sched_switch 7 R 5
         host 0 2000 5 other"
    );
    let (tables, _) = Story::parse(&around).run();
    (wakeup_rows(&tables), thread_states(&tables, 0, 5))
}

#[test]
fn contexts_and_handlers_name_the_waker() {
    let cases = [
        // A thread, with its context told, and where neither context nor handler is.
        ("host 0 1500 7 sched_waking 5 in=task", "7"),
        ("host 0 1500 7 sched_waking 5", "7"),
        // The innermost handler of the context.
        (
            "host 0 1400 7 softirq_entry 4
             host 0 1500 7 sched_waking 5 in=softirq
             host 0 1600 7 softirq_exit 4",
            "softirq: softirq BLOCK",
        ),
        (
            "host 0 1300 7 softirq_entry 4
             host 0 1400 7 timer_entry
             host 0 1500 7 sched_waking 5 in=irq
             host 0 1600 7 timer_exit
             host 0 1700 7 softirq_exit 4",
            "irq: local_timer",
        ),
        (
            "host 0 1400 7 irq_entry 35
             host 0 1500 7 sched_waking 5 in=irq
             host 0 1600 7 irq_exit 35",
            "irq: irq 35",
        ),
        // An interrupt that was not recorded, also one within a softirq that was.
        ("host 0 1500 7 sched_waking 5 in=irq", "irq"),
        ("host 0 1500 7 sched_waking 5 in=nmi", "nmi"),
        (
            "host 0 1400 7 softirq_entry 4
             host 0 1500 7 sched_waking 5 in=irq
             host 0 1600 7 softirq_exit 4",
            "irq",
        ),
        // A recording without contexts: an open handler tells.
        (
            "host 0 1300 7 softirq_entry 4
             host 0 1400 7 irq_entry 35
             host 0 1500 7 sched_waking 5
             host 0 1600 7 irq_exit 35
             host 0 1700 7 softirq_exit 4",
            "irq: irq 35",
        ),
    ];
    for (events, waker) in cases {
        let (wakeups, states) = story(events);
        assert_eq!(wakeups, [format!("1500+400 5 by {waker} on c0")], "{events}");
        let word = waker.split(':').next().unwrap();
        assert_eq!(states[1], format!("1500+400 runnable by {word}"), "{events}");
    }
}

/// A preempted thread was woken by nobody.
#[test]
fn preempted_is_not_woken() {
    let (tables, _) = Story::parse(
        "host 0 1000 5 sched_switch 5 R 7
         host 0 1900 7 sched_switch 7 R 5
         host 0 2000 5 other",
    )
    .run();
    let waited: Vec<_> =
        tables.thread_states.iter().filter(|row| row.tid.0 == 5 && row.ts == 1000).collect();
    assert_eq!(waited.len(), 1);
    assert!(!waited[0].is_woken());
}
