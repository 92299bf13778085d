//! Files cut and damaged at every byte: what is whole is read, what is not is told, nothing panics.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common::*;
use proptest::prelude::*;
use transect_compact::{
    BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockWriter, CHUNK_BYTES, Compact, Error, FileHeader, Item,
    LogWriter, Lost, LostCause, Names, Totals, What, repack,
};
use transect_model::{
    event::{Comm, CoreEvent},
    exit::Isa,
    ids::{CpuId, Tid},
};

/// What reading gives when nothing is taken for granted.
fn read_all(file: &[u8]) -> Result<(Vec<Stamped>, Vec<Item>, Compact<'_>), Error> {
    let compact = Compact::parse(file)?;
    let (mut events, mut others) = (Vec::new(), Vec::new());
    for cpu in compact.cpus() {
        for item in compact.stream(cpu).unwrap() {
            match item {
                Item::Event { ts, tid, event } => events.push((ts.get(), tid, event)),
                other => others.push(other),
            }
        }
    }
    Ok((events, others, compact))
}

fn raise(n: u64) -> Stamped {
    (1_000 + n * 100, Tid(5), CoreEvent::SoftirqRaise { vector: (n % 10) as u32, context: None })
}

/// Names, words in several blocks, a note and the end.
fn small_file() -> Vec<u8> {
    let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Svm, "test")).unwrap();
    let mut names = Names::default();
    names.thread(Tid(5), Comm::new(b"five"));
    file.names(&names).unwrap();
    let mut log = LogWriter::new(MAIN);
    for n in 0..12 {
        let (ts, tid, event) = raise(n);
        log.event(ts, tid, &event, &mut file).unwrap();
        if n % 4 == 3 {
            log.flush(&mut file).unwrap();
        }
    }
    file.note("\"a note\"").unwrap();
    file.finish(&Totals::default()).unwrap()
}

/// Where blocks begin.
fn blocks(file: &[u8]) -> Vec<usize> {
    (0..file.len()).step_by(8).filter(|at| file[*at..].starts_with(&BLOCK_MAGIC)).collect()
}

/// Killed at any byte: every complete block is read, and the rest is told with its offset.
#[test]
fn cut_at_every_byte() {
    let file = small_file();
    let whole = read_all(&file).unwrap().0;
    assert_eq!(whole.len(), 12);
    let starts = blocks(&file);
    assert_eq!(starts.len(), 6);
    for length in 0..file.len() {
        let cut = &file[..length];
        if length < starts[0] {
            match Compact::parse(cut) {
                Err(Error::Cut { at_bytes }) => assert_eq!(at_bytes, length as u64),
                // Nothing at all is no compact file that was cut.
                Err(Error::Magic { .. }) => assert_eq!(length, 0),
                other => panic!("{length}: {other:?}"),
            }
            continue;
        }
        let (events, others, compact) = read_all(cut).unwrap();
        assert_eq!(events, whole[..events.len()], "{length}");
        let complete = |at: usize| length >= starts.get(at + 1).copied().unwrap_or(file.len());
        let words = (1..=3).filter(|at| complete(*at)).count();
        assert_eq!(events.len(), words * 4, "{length}");
        assert_eq!(compact.names().is_empty(), !complete(0));
        let block = starts.iter().rev().find(|start| **start <= length).copied().unwrap();
        // Of the last block's padding nothing is needed.
        if block == length || length + 5 >= file.len() {
            assert_eq!(compact.problems(), &[], "{length}");
            continue;
        }
        let [problem] = compact.problems() else { panic!("{length}: {:?}", compact.problems()) };
        assert_eq!(problem.at_bytes, block as u64);
        assert!(matches!(problem.what, What::Truncated { missing_bytes } if missing_bytes > 0));
        // The log knows that it was cut as soon as the block's header says whose it is.
        let header_is_whole = length >= block + BLOCK_HEADER_BYTES;
        if header_is_whole && starts[1..=3].contains(&block) {
            let cause = others.iter().find_map(|item| match item {
                Item::Lost(lost) => Some(lost.cause),
                _ => None,
            });
            assert_eq!(cause, Some(LostCause::Truncated), "{length}");
        }
    }
}

/// One bit wrong anywhere: the other blocks are still read, and it is noticed.
#[test]
fn one_bit_wrong_at_every_byte() {
    let file = small_file();
    let whole = read_all(&file).unwrap().0;
    let first_block = blocks(&file)[0];
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= 1 << (at % 8);
        match read_all(&damaged) {
            Err(_) => assert!(at < first_block, "{at}"),
            Ok((events, others, compact)) => {
                assert!(at >= first_block, "{at}: a header with a wrong checksum was read");
                assert!(events.iter().all(|event| whole.contains(event)), "{at}");
                // After damage in the log's first block nothing is left of the only chunk.
                let padding = damaged[at] != file[at] && events.len() == whole.len();
                let noticed = !compact.problems().is_empty() || !others.is_empty();
                assert!(noticed || padding, "{at}");
            }
        }
    }
}

fn long_history() -> Vec<Stamped> {
    (0..40_000).map(raise).collect()
}

/// Damage in the middle of a log: it goes on at the next chunk, with a hole in between.
#[test]
fn a_damaged_block_makes_a_hole() {
    for damage_header in [false, true] {
        let mut file = file_of(MAIN, &long_history());
        let starts = blocks(&file);
        let middle = starts[starts.len() / 2];
        file[middle + if damage_header { 20 } else { 1_000 }] ^= 0x55;
        let (events, others, compact) = read_all(&file).unwrap();
        let lost: Vec<_> = others
            .iter()
            .filter_map(|item| match item {
                Item::Lost(lost) => Some((lost.cause, lost.count)),
                _ => None,
            })
            .collect();
        let cause = if damage_header { LostCause::Missing } else { LostCause::Damaged };
        assert_eq!(lost, [(cause, None)]);
        let per_chunk = CHUNK_BYTES / 8 - 3;
        let missing = 40_000 - events.len();
        assert!(missing.abs_diff(per_chunk) < 10, "{missing}");
        if damage_header {
            let [problem] = compact.problems() else { panic!("{:?}", compact.problems()) };
            assert_eq!(problem.at_bytes, middle as u64);
            let skipped_bytes = (CHUNK_BYTES + BLOCK_HEADER_BYTES) as u64;
            assert_eq!(problem.what, What::NoBlock { skipped_bytes });
        }
    }
}

/// A log whose first block is gone is missing its beginning, unless it is a flight recorder's.
#[test]
fn a_missing_beginning_is_told() {
    for overwrite in [false, true] {
        let header = FileHeader { overwrite, ..FileHeader::new(1, Isa::Svm, "") };
        let mut file = BlockWriter::new(Vec::new(), &header).unwrap();
        write_log(MAIN, &long_history(), &mut file);
        let file = file.finish(&Totals::default()).unwrap();
        let starts = blocks(&file);
        let without_first = [&file[..starts[0]], &file[starts[1]..]].concat();
        let (events, others, _) = read_all(&without_first).unwrap();
        assert!(events.len() > 30_000);
        let cause = if overwrite { LostCause::Overwritten } else { LostCause::Missing };
        assert_eq!(others, [Item::Lost(Lost { count: None, span: None, cause })]);
    }
}

/// Compressed blocks that claim or hold more than they may.
#[test]
fn compressed_blocks_cannot_make_memory_explode() {
    let events = long_history();
    let packed = repack(&file_of(MAIN, &events), Vec::new()).unwrap();
    let start = blocks(&packed)[0];
    let mut bomb = vec![0; 64];
    bomb[..4].copy_from_slice(&BLOCK_MAGIC);
    // A quarter of a gigabyte of zeros, said to be eight bytes; and said to be columns of them.
    let zeros = zstd::bulk::compress(&vec![0; 1 << 28], 1).unwrap();
    for (flags, prefix) in
        [(1 | 4, vec![]), (1 | 4 | 8, vec![0, 0, 0, 0x10]), (13, vec![64, 0, 0, 0])]
    {
        let payload = [prefix.as_slice(), &zeros].concat();
        let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
        bomb[5] = flags;
        bomb[12..16].copy_from_slice(&length);
        bomb[16..20].copy_from_slice(&8_u32.to_le_bytes());
        bomb[48..52].copy_from_slice(&crc32fast::hash(&payload).to_le_bytes());
        let crc = crc32fast::hash(&bomb[..60]).to_le_bytes();
        bomb[60..64].copy_from_slice(&crc);
        let padding = vec![0; payload.len().next_multiple_of(8) - payload.len()];
        let file = [&packed[..start], &bomb, &payload, &padding].concat();
        let (events, others, _) = read_all(&file).unwrap();
        assert_eq!(events, []);
        assert!(
            matches!(others[0], Item::Problem(problem) if problem.what == What::Compressed),
            "{others:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any words at all in a block that is otherwise right.
    #[test]
    fn any_words_are_read_to_their_end(words in prop::collection::vec(any::<u64>(), 0..600)) {
        let sync = [1_u64 | 0x15 << 30, 77, 0];
        let bytes: Vec<u8> = sync.iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
        let mut file = BlockWriter::new(Vec::new(), &FileHeader::new(1, Isa::Vmx, "")).unwrap();
        let slice = transect_compact::Slice {
            log: MAIN,
            position: 0,
            sync_ns: 77,
            lost: 0,
            words: &bytes,
        };
        transect_compact::SliceSink::slice(&mut file, slice).unwrap();
        let file = file.finish(&Totals::default()).unwrap();
        let (events, _, _) = read_all(&file).unwrap();
        prop_assert!(events.len() <= words.len() * 2);
        let packed = repack(&file, Vec::new()).unwrap();
        prop_assert_eq!(read_all(&packed).unwrap().0, events);
    }

    /// Any bytes behind a right file header.
    #[test]
    fn any_bytes_are_no_danger(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let file = [FileHeader::new(1, Isa::Vmx, "").to_bytes(), bytes].concat();
        let (events, _, _) = read_all(&file).unwrap();
        prop_assert_eq!(events, []);
    }

    /// Blocks in any order, or twice: nothing is read twice.
    #[test]
    fn shuffled_blocks_are_not_read_twice(order in prop::collection::vec(0..5_usize, 0..12)) {
        let file = file_of(MAIN, &long_history()[..18_000]);
        let starts = blocks(&file);
        prop_assert_eq!(starts.len(), 6);
        let mut shuffled = file[..starts[0]].to_vec();
        for at in order {
            shuffled.extend_from_slice(&file[starts[at]..starts[at + 1]]);
        }
        let (events, _, _) = read_all(&shuffled).unwrap();
        prop_assert!(events.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}

/// A thread that was never told, a device without a name: no made-up words.
#[test]
fn what_was_not_told_is_empty() {
    let (events, _, compact) = {
        let file: &'static [u8] = Box::leak(small_file().into_boxed_slice());
        read_all(file).unwrap()
    };
    assert_eq!(compact.names().of(Tid(5)), Some(Comm::new(b"five")));
    assert_eq!(compact.names().of(Tid(6)), None);
    assert_eq!(compact.cpus().collect::<Vec<_>>(), [CpuId(0)]);
    assert_eq!(compact.notes(), ["\"a note\""]);
    assert_eq!(events.len(), 12);
}
