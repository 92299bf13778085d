//! In which context wakings come, and the CPU's own vectors, on this machine's kernel.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::print_stdout, reason = "a skipped test says why")]

use crate::host::support::{Busy, Load, is_skipped};
use std::{
    io::{self, Read as _, Write as _},
    time::Duration,
};
use transect_bpf::{Compact, Family, LogSink, Plan};
use transect_compact::{BlockWriter, FileHeader, Item, LogId, Slice, SliceSink, Totals};
use transect_model::{
    event::CoreEvent,
    exit::Isa,
    ids::{CpuId, Tid},
    interrupt::{Context, VectorSource},
};

/// Slices as a file in memory.
struct Memory(BlockWriter<Vec<u8>>);

impl LogSink for Memory {
    fn slice(
        &mut self,
        cpu: CpuId,
        side: u8,
        position: u64,
        sync_ns: u64,
        lost: u64,
        words: &[u8],
    ) -> io::Result<()> {
        self.0.slice(Slice { log: LogId { cpu, side }, position, sync_ns, lost, words })
    }
}

/// The context of each waking of a thread on the first CPU, with the vectors that were open.
fn wakings_of(file: &[u8], woken: Tid) -> Vec<(Context, Vec<VectorSource>)> {
    let compact = transect_compact::Compact::parse(file).unwrap();
    assert!(compact.problems().is_empty(), "{:?}", compact.problems());
    let (mut open, mut wakings) = (Vec::new(), Vec::new());
    for item in compact.stream(CpuId(0)).unwrap() {
        let Item::Event { event, .. } = item else { panic!("nothing is lost: {item:?}") };
        match event {
            CoreEvent::VectorEntry { source, .. } => open.push(source),
            CoreEvent::VectorExit { source, .. } => {
                // The first may have begun before the programs were attached.
                let begun = open.pop();
                assert!(begun.is_none_or(|begun| begun == source), "{begun:?} and {source:?}");
            }
            CoreEvent::SchedWaking { tid, context, .. } if tid == woken => {
                wakings.push((context.expect("the context is told"), open.clone()));
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
            std::thread::sleep(Duration::from_micros(300));
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

    let count = |tid: Tid, wanted: &dyn Fn(&(Context, Vec<VectorSource>)) -> bool| {
        wakings_of(&file, tid).iter().filter(|waking| wanted(waking)).count()
    };
    // Whoever ordered the threads to begin woke them too, once.
    let by_timer = count(slept, &|(context, _)| *context == Context::Irq);
    assert!(by_timer >= TIMES, "{:?}", wakings_of(&file, slept));
    let by_writer = count(read, &|(context, _)| *context == Context::Task);
    assert!(by_writer >= TIMES * 9 / 10, "{:?}", wakings_of(&file, read));
    // By whatever vector the timer comes here, none is open while a thread itself wakes.
    assert_eq!(count(read, &|(context, open)| *context == Context::Task && !open.is_empty()), 0);
    if cfg!(target_arch = "x86_64") {
        let in_timer = |(context, open): &(Context, Vec<VectorSource>)| {
            *context == Context::Irq && open.last() == Some(&VectorSource::LocalTimer)
        };
        let in_timer = count(slept, &in_timer);
        println!(
            "{by_timer} wakings by timers, {in_timer} of them in the local timer's vector; {by_writer} by the writer"
        );
        assert!(in_timer >= TIMES, "{:?}", wakings_of(&file, slept));
    }
}
