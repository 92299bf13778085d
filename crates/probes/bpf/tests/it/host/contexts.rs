//! In which context wakings come, and the CPU's own vectors, on this machine's kernel.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use crate::host::support::{Busy, Load, Memory, is_skipped};
use std::{
    io::{self, Read as _, Write as _},
    time::Duration,
};
use transect_bpf::{Compact, Family, Plan};
use transect_compact::{BlockWriter, FileHeader, Item, Totals};
use transect_model::{
    event::CoreEvent,
    exit::Isa,
    ids::{CpuId, Tid},
    interrupt::{Context, VectorSource},
};

/// The context of a waking, and the vector that was being served.
type Waking = (Context, Option<VectorSource>);

/// The wakings of two threads on the first CPU. Programs are attached one after the other, and taken off: only from the
/// first waking to the last are all of them there.
fn wakings_of(file: &[u8], woken: [Tid; 2]) -> [Vec<Waking>; 2] {
    let compact = transect_compact::Compact::parse(file).unwrap();
    assert!(compact.problems().is_empty(), "{:?}", compact.problems());
    let events = compact.stream(CpuId(0)).unwrap().map(|item| {
        let Item::Event { event, .. } = item else { panic!("nothing is lost: {item:?}") };
        event
    });
    let events: Vec<CoreEvent> = events.collect();
    let is_ours = |event: &CoreEvent| matches!(event, CoreEvent::SchedWaking { tid, .. } if woken.contains(tid));
    let first = events.iter().position(is_ours).unwrap();
    let last = events.iter().rposition(is_ours).unwrap();
    // The first may be in a vector that began before.
    let (mut open, mut is_known) = (None, false);
    let mut wakings = [Vec::new(), Vec::new()];
    for event in &events[first + 1..=last] {
        match event {
            CoreEvent::VectorEntry { source, .. } => {
                assert!(open.is_none(), "{source:?} in {open:?}");
                (open, is_known) = (Some(*source), true);
            }
            CoreEvent::VectorExit { source, .. } => {
                assert!(!is_known || open == Some(*source), "end of {source:?} in {open:?}");
                (open, is_known) = (None, true);
            }
            CoreEvent::SchedWaking { tid, context, .. } => {
                if let Some(at) = woken.iter().position(|ours| ours == tid) {
                    wakings[at].push((context.expect("the context is told"), open));
                }
            }
            _ => {}
        }
    }
    wakings
}

#[test]
fn a_timer_wakes_in_an_interrupt_and_a_thread_in_its_own_context() {
    const TIMES: usize = 50;
    if is_skipped() {
        return;
    }
    let (sleeper, reader, writer) = (Load::start(), Load::start(), Load::start());
    let (slept, read) = (sleeper.tid(), reader.tid());
    let plan = Plan::of(&[Family::Sched, Family::Irq, Family::Vectors]);
    let mut compact = Compact::load(&plan).unwrap();
    let header = FileHeader::new(1024, Isa::Svm, "contexts");
    let consumer = compact.consume(Memory(BlockWriter::new(Vec::new(), &header).unwrap())).unwrap();
    compact.attach().unwrap();
    let _busy = Busy::start();
    sleeper.run(|| {
        for _ in 0..TIMES {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let (mut from, mut to) = io::pipe().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            reader.run(move || {
                let mut byte = [0];
                while from.read(&mut byte).unwrap() > 0 {}
            });
        });
        writer.run(move || {
            for _ in 0..TIMES {
                // Meanwhile the reader waits again: all of them are on one CPU.
                std::thread::sleep(Duration::from_millis(1));
                to.write_all(&[1]).unwrap();
            }
        });
    });
    let finished = compact.stop(consumer).unwrap();
    assert_eq!((finished.stats.lost(), finished.failure.is_none()), (0, true));
    let file = finished.sink.0.finish(&Totals::default()).unwrap();

    // Where a timer wakes: PREEMPT_RT leaves most of them to a thread that serves softirqs.
    let is_rt =
        std::fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1");
    let timers = if is_rt { Context::Softirq } else { Context::Irq };
    let [slept, read] = wakings_of(&file, [slept, read]);
    let by_timer: Vec<_> = slept.iter().filter(|(context, _)| *context == timers).collect();
    let by_writer: Vec<_> = read.iter().filter(|(context, _)| *context == Context::Task).collect();
    println!(
        "sleeper: {} of {} by timers; reader: {} of {} by the writer",
        by_timer.len(),
        slept.len(),
        by_writer.len(),
        read.len()
    );
    // A slow machine may be late for some: the time is over before the thread sleeps. And whoever gave the order to
    // begin woke the thread too, as did whoever had a lock that it waited for.
    assert!(by_timer.len() > TIMES / 2 && slept.len() <= by_timer.len() + 5, "{slept:?}");
    assert!(by_writer.len() > TIMES / 2 && read.len() <= by_writer.len() + 5, "{read:?}");
    assert!(by_writer.iter().all(|(_, open)| open.is_none()), "{read:?}");
    if cfg!(target_arch = "x86_64") && !is_rt {
        let in_timer = by_timer.iter().all(|(_, open)| *open == Some(VectorSource::LocalTimer));
        assert!(in_timer, "{slept:?}");
    }
}
