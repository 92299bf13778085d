//! A damaged file never passes for a shorter one: where events are missing, the stream says so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common::*;
use proptest::prelude::*;
use transect_compact::{
    BlockWriter, Compact, FileHeader, Item, LogId, LogTotals, LogWriter, Totals,
};
use transect_model::{exit::Isa, ids::CpuId};

/// A file of three logs of one CPU, flushed now and then, with totals; and where its blocks begin.
fn file(logs: [&[Stamped]; 3], every: usize) -> (Vec<u8>, usize) {
    let header = FileHeader::new(1, Isa::Svm, "test");
    let mut file = BlockWriter::new(Vec::new(), &header).unwrap();
    let begin = BlockWriter::new(Vec::new(), &header).unwrap().finish(&Totals::default()).unwrap();
    let begin = begin.windows(4).position(|bytes| bytes == b"TBLK").unwrap();
    let mut totals = Totals::default();
    for (id, events) in [MAIN, SIDE, SECOND].into_iter().zip(logs) {
        let bytes = write(id, events, every, &mut file);
        totals.logs.push(LogTotals { cpu: 0, side: id.side, bytes, ..LogTotals::default() });
    }
    (file.finish(&totals).unwrap(), begin)
}

fn write(id: LogId, events: &[Stamped], every: usize, file: &mut BlockWriter<Vec<u8>>) -> u64 {
    let mut log = LogWriter::new(id);
    for (at, (ts, tid, event)) in events.iter().enumerate() {
        log.event(*ts, *tid, event, file).unwrap();
        if at % every == every - 1 {
            log.flush(file).unwrap();
        }
    }
    log.finish(file).unwrap();
    log.position()
}

/// Every event that was written is given, or a hole is where it would be.
fn check(written: &[Stamped], items: &[Item]) -> Result<(), TestCaseError> {
    let mut left = all_carried(written).into_iter();
    let mut in_hole = false;
    for item in items {
        match item {
            Item::Lost(_) => in_hole = true,
            Item::Problem(_) => {}
            Item::Event { ts, tid, event } => {
                let given = (ts.get(), *tid, carried(event));
                let skipped = left.by_ref().take_while(|event| *event != given).count();
                prop_assert!(
                    skipped == 0 || in_hole,
                    "{skipped} events silently missing before {given:?}"
                );
                in_hole = false;
            }
        }
    }
    let behind = left.count();
    prop_assert!(behind == 0 || in_hole, "{behind} events silently missing at the end");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_a_flip_or_a_cut_hides_is_told(
        main in history(60), side in history(30), second in history(20), every in 1..12_usize,
        at in any::<prop::sample::Index>(), bit in 0..8_u8, is_cut in any::<bool>(),
    ) {
        let (mut file, begin) = file([&main, &side, &second], every);
        let whole = Compact::parse(&file).unwrap();
        let begins = |id| whole.chunks(id).next().unwrap().sync;
        let logs: Vec<_> = whole.logs().map(|id| (id, begins(id))).collect();
        let at = begin + at.index(file.len() - begin);
        match is_cut {
            true => file.truncate(at),
            false => file[at] ^= 1 << bit,
        }
        // As a recording knows by the file's length and end.
        let compact = Compact::parse(&file).unwrap().with_logs(logs);
        let mut written: Vec<Stamped> = [main, side, second].concat();
        written.sort_by_key(|(ts, _, _)| *ts);
        let items: Vec<Item> = compact.stream(CpuId(0)).into_iter().flatten().collect();
        check(&written, &items)?;
    }

    /// What comes before the first event of a log whose events are all missing is whole.
    #[test]
    fn a_missing_log_hides_nothing_before_it(main in history(60), side in history(30)) {
        let (mut file, _) = file([&main, &side, &[]], 1000);
        let whole = Compact::parse(&file).unwrap();
        let Some(begins) = whole.chunks(SIDE).next().map(|chunk| chunk.sync) else { return Ok(()) };
        let known = whole.logs().map(|id| (id, begins)).collect::<Vec<_>>();
        let mut blocks = file.windows(4).enumerate().filter(|(_, bytes)| bytes == b"TBLK");
        // The first one is the main log's.
        let (second, _) = blocks.nth(1).unwrap();
        file.truncate(second);
        let compact = Compact::parse(&file).unwrap().with_logs(known);
        let items: Vec<Item> = compact.stream(CpuId(0)).into_iter().flatten().collect();
        let given = items.iter().filter(|item| matches!(item, Item::Event { .. })).count();
        prop_assert!(items.iter().any(|item| matches!(item, Item::Lost(_))));
        let before = all_carried(&main).iter().filter(|(ts, _, _)| *ts < begins.get()).count();
        prop_assert!(given >= before, "{given} of {before}");
    }
}
