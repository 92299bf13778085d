//! Events written as logs and read again are the same events.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common::*;
use proptest::prelude::*;
use transect_compact::{
    BlockWriter, CHUNK_BYTES, Carried, Compact, FileHeader, Item, LogWriter, Names, Packer, Slice,
    Totals, end_block, repack,
};
use transect_model::{
    event::{Comm, CoreEvent, PrevState},
    exit::Isa,
    ids::{CpuId, Tid},
    interrupt::Context,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn events_survive(history in history(300)) {
        let items = read(&file_of(MAIN, &history));
        prop_assert_eq!(all_carried(&events(&items)), all_carried(&history));
    }

    #[test]
    fn a_side_log_alone_survives(history in history(100)) {
        let items = read(&file_of(SIDE, &history));
        prop_assert_eq!(all_carried(&events(&items)), all_carried(&history));
    }

    /// Events of a side log come where their stamps belong, even inside a folded record.
    #[test]
    fn side_logs_are_merged_by_time(main in history(200), side in history(40), second in history(20)) {
        let mut file =
            BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "test")).unwrap();
        write_log(MAIN, &main, &mut file);
        write_log(SIDE, &side, &mut file);
        write_log(SECOND, &second, &mut file);
        let file = file.finish(&Totals::default()).unwrap();
        let mut merged: Vec<Stamped> = main.iter().chain(&side).chain(&second).copied().collect();
        merged.sort_by_key(|(ts, _, _)| *ts);
        prop_assert_eq!(all_carried(&events(&read(&file))), all_carried(&merged));
    }

    /// However a log is cut into slices, it reads the same.
    #[test]
    fn flushing_changes_nothing(history in history(300), every in 1..20_usize) {
        let mut file =
            BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "test")).unwrap();
        let mut log = LogWriter::new(MAIN);
        for (at, (ts, tid, event)) in history.iter().enumerate() {
            log.event(*ts, *tid, event, &mut file).unwrap();
            if at % every == 0 {
                log.flush(&mut file).unwrap();
            }
        }
        log.finish(&mut file).unwrap();
        let file = file.finish(&Totals::default()).unwrap();
        prop_assert_eq!(read(&file), read(&file_of(MAIN, &history)));
    }
}

proptest! {
    // Setting zstd up costs more than these few events.
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Compressed, a file reads the same, and so it does when it is compressed again.
    #[test]
    fn packing_changes_nothing(main in history(300), side in history(20), second in history(9)) {
        let mut file =
            BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "test")).unwrap();
        write_log(MAIN, &main, &mut file);
        write_log(SIDE, &side, &mut file);
        write_log(SECOND, &second, &mut file);
        let mut names = Names::default();
        main.iter().for_each(|(_, _, event)| names.learn(event));
        file.names(&names).unwrap();
        file.note("{}").unwrap();
        let file = file.finish(&Totals::default()).unwrap();
        let packed = repack(&file, Vec::new()).unwrap();
        prop_assert_eq!(read(&packed), read(&file));
        let again = repack(&packed, Vec::new()).unwrap();
        prop_assert!(again == packed);
        let (old, new) = (Compact::parse(&file).unwrap(), Compact::parse(&packed).unwrap());
        prop_assert_eq!(old.names(), new.names());
        prop_assert_eq!(old.notes(), new.notes());
        prop_assert_eq!(old.totals(), new.totals());
    }
}

/// A recorder that compresses as it goes, and writes what it has from time to time: blocks begin
/// and end anywhere in a chunk.
#[test]
fn packing_while_recording() {
    let history = syscalls(30_000);
    let header = FileHeader::new(1, Isa::Svm, "test").to_bytes();
    let mut packer = Packer::new(header).unwrap();
    let mut log = LogWriter::new(MAIN);
    for (at, (ts, tid, event)) in history.iter().enumerate() {
        log.event(*ts, *tid, event, &mut packer).unwrap();
        if at % 7_001 == 0 {
            log.flush(&mut packer).unwrap();
            packer.flush().unwrap();
        }
    }
    log.finish(&mut packer).unwrap();
    let mut file = packer.finish().unwrap();
    file.extend_from_slice(&end_block(&Totals::default()));
    assert_eq!(read(&file), read(&file_of(MAIN, &history)));
    assert!(Compact::parse(&file).unwrap().chunks(MAIN).count() < 9);
}

/// Blocks of many chunks, and the last of them not full.
#[test]
fn long_logs_pack_to_few_blocks() {
    let file = file_of(MAIN, &syscalls(150_000));
    let packed = repack(&file, Vec::new()).unwrap();
    assert!(packed.len() * 8 < file.len(), "{} of {}", packed.len(), file.len());
    assert_eq!(Compact::parse(&packed).unwrap().chunks(MAIN).count(), 3);
    assert_eq!(read(&packed), read(&file));
}

fn syscalls(count: u64) -> Vec<Stamped> {
    (0..count)
        .flat_map(|n| {
            let (enter, exit) = (1_000 + n * 500, 1_200 + n * 500);
            [
                (enter, Tid(9), CoreEvent::SyscallEnter { nr: 39 }),
                (exit, Tid(9), CoreEvent::SyscallExit { nr: 39, ret: 9 }),
            ]
        })
        .collect()
}

#[test]
fn chunks_are_whole_and_each_begins_with_sync() {
    let mut slices = Vec::new();
    let mut sink = |slice: Slice<'_>| {
        slices.push((slice.position, slice.words.to_vec()));
        Ok::<(), ()>(())
    };
    let mut log = LogWriter::new(MAIN);
    for (ts, tid, event) in syscalls(10_000) {
        log.event(ts, tid, &event, &mut sink).unwrap();
    }
    log.finish(&mut sink).unwrap();
    assert_eq!(log.position(), slices.iter().map(|(_, words)| words.len() as u64).sum::<u64>());
    // One word a pair: a chunk holds 4,093 besides its SYNC, less what a chunk's end may waste.
    assert_eq!(slices.len(), 3);
    for (n, (position, words)) in slices.iter().enumerate() {
        assert_eq!(*position, (n * CHUNK_BYTES) as u64);
        assert_eq!(words[0] & 63, transect_compact::kind::SYNC);
    }
}

/// A stream can begin at every chunk, and the parts together are the whole.
#[test]
fn chunks_are_places_to_begin() {
    let events = syscalls(20_000);
    let file = file_of(MAIN, &events);
    let compact = Compact::parse(&file).unwrap();
    let chunks: Vec<_> = compact.chunks(MAIN).collect();
    assert_eq!(chunks.len(), 5);
    let mut items: Vec<Item> = Vec::new();
    for (n, chunk) in chunks.iter().enumerate() {
        let mut part = compact.chunk_stream(MAIN, *chunk, chunks.get(n + 1).copied()).unwrap();
        let from = items.len();
        while part.fill(&mut items, 100) {}
        let Item::Event { ts, .. } = items[from] else { panic!("{:?}", items[from]) };
        assert_eq!(ts, chunk.sync);
    }
    assert_eq!(items, read(&file));
}

#[test]
fn a_switch_leaves_in_the_name_and_priority_of_who_ran() {
    let switch = |prev, prev_prio, next, next_prio| CoreEvent::SchedSwitch {
        prev: Tid(prev),
        prev_comm: Comm::new(b"a"),
        prev_prio,
        prev_state: PrevState(1),
        next: Tid(next),
        next_comm: Comm::new(b"b"),
        next_prio,
    };
    let history = [
        (10, Tid(0), switch(0, 120, 7, 100)),
        (20, Tid(7), switch(7, 100, 8, 98)),
        // Somebody not known to run: the record says who.
        (30, Tid(5), switch(5, 97, 0, 120)),
    ];
    let read = events(&read(&file_of(MAIN, &history)));
    let prios: Vec<_> = read
        .iter()
        .map(|(_, tid, event)| match event {
            CoreEvent::SchedSwitch { prev, prev_prio, .. } => (*tid, *prev, *prev_prio),
            other => panic!("{other:?}"),
        })
        .collect();
    let unknown = transect_compact::PRIO_UNKNOWN;
    assert_eq!(prios, [(Tid(0), Tid(0), unknown), (Tid(7), Tid(7), 100), (Tid(5), Tid(5), 97),]);
}

#[test]
fn lost_events_are_told_with_their_time() {
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "test")).unwrap();
    let mut log = LogWriter::new(MAIN);
    let raise = CoreEvent::SoftirqRaise { vector: 1, context: None };
    log.event(100, Tid(1), &raise, &mut file).unwrap();
    log.lost(3, 200, 250);
    log.lost(4, 260, 300);
    log.event(400, Tid(1), &raise, &mut file).unwrap();
    log.lost(2, 500, 600);
    log.finish(&mut file).unwrap();
    let mut totals = Totals::default();
    totals.logs.push(transect_compact::LogTotals { lost: 9, ..Default::default() });
    let file = file.finish(&totals).unwrap();
    let lost: Vec<_> = read(&file)
        .into_iter()
        .filter_map(|item| match item {
            Item::Lost(lost) => {
                Some((lost.count, lost.span.map(|(first, last)| (first.get(), last.get()))))
            }
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(Some(7), Some((200, 300))), (Some(2), None)]);
}

#[test]
fn what_has_no_record_is_said_to_have_none() {
    let mut log = LogWriter::new(MAIN);
    let event = CoreEvent::SchedWakeup {
        tid: Tid(1),
        comm: Comm::default(),
        prio: 120,
        target_cpu: CpuId(0),
        context: Some(Context::Irq),
    };
    let mut out = |_: Slice<'_>| Ok::<(), ()>(());
    assert_eq!(log.event(1, Tid(0), &event, &mut out), Ok(Carried::No));
    let event = CoreEvent::SoftirqRaise { vector: 16, context: None };
    assert_eq!(log.event(2, Tid(0), &event, &mut out), Ok(Carried::Saturated));
}

/// The main log had no room; an interrupt within its writer was recorded meanwhile. That does not end the hole.
#[test]
fn a_hole_goes_on_behind_an_event_of_a_side_log() {
    let event = |ts| (ts, Tid(1), CoreEvent::SoftirqRaise { vector: 1, context: None });
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "test")).unwrap();
    let mut log = LogWriter::new(MAIN);
    let write = |log: &mut LogWriter, ts, file: &mut BlockWriter<Vec<u8>>| {
        let (ts, tid, event) = event(ts);
        log.event(ts, tid, &event, file).unwrap();
    };
    write(&mut log, 100, &mut file);
    log.lost(7, 200, 300);
    write(&mut log, 400, &mut file);
    log.finish(&mut file).unwrap();
    write_log(SIDE, &[event(50), event(250), event(270), event(450)], &mut file);
    let mut totals = Totals::default();
    totals.logs.push(transect_compact::LogTotals { lost: 7, ..Default::default() });
    let items = read(&file.finish(&totals).unwrap());
    let told = items.iter().map(|item| match item {
        Item::Event { ts, .. } => format!("at {}", ts.get()),
        Item::Lost(lost) => {
            let span = lost.span.map(|(first, last)| (first.get(), last.get()));
            format!("lost {:?} {span:?}", lost.count)
        }
        Item::Problem(problem) => problem.to_string(),
    });
    let all: Vec<String> = told.collect();
    let wanted = [
        "at 50",
        "at 100",
        "lost Some(7) Some((200, 300))",
        "at 250",
        "lost Some(0) Some((250, 300))",
        "at 270",
        "lost Some(0) Some((270, 300))",
        "at 400",
        "at 450",
    ];
    assert_eq!(all, wanted);
}
