//! Tables read back and cut to a stretch of time: what a row says stays, edges are where they must be.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests and their helpers: a failure is what they are for; numbers are small"
)]

use crate::rows;

use proptest::prelude::*;
use rows::{KINDS, Rng, parts, row};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use transect_integrity::{LIST_FILE_NAME, List, ListSum, seal};
use transect_model::cell::Cell;
use transect_model::ids::{MachineId, Tid};
use transect_model::interrupt::Context;
use transect_model::state::ThreadState;
use transect_model::table::{Row, TableSink, Tables, ThreadStateRow};
use transect_store::manifest::Excerpt;
use transect_store::tables::{Cut, Range, TablesWriter, Written, read_rows, span_of};
use transect_store::{ExcerptWriter, Manifest, StoreError, of_broken, open_excerpt};

/// Table, and every column with its value: what an SQL reader sees of a row.
type Told = (String, Vec<(String, Cell<'static>)>);

fn told(row: &Row) -> Told {
    let (table, record) = parts(row);
    let mut cells = Vec::new();
    record.each_cell(&mut |name, cell| {
        let cell = match cell {
            Cell::Str(text) => Cell::Str(text.into_owned().into()),
            Cell::Null => Cell::Null,
            Cell::Bool(v) => Cell::Bool(v),
            Cell::I64(v) => Cell::I64(v),
            Cell::U64(v) => Cell::U64(v),
            Cell::F64(v) => Cell::F64(v),
        };
        cells.push((name.to_owned(), cell));
    });
    (table.name.to_owned(), cells)
}

/// Keeps what rows tell, in the order they come.
#[derive(Default)]
struct Kept(Vec<Told>);

impl TableSink for Kept {
    fn row(&mut self, row: Row) {
        self.0.push(told(&row));
    }
}

fn write(dir: &Path, machines: usize, rows: impl IntoIterator<Item = Row>) {
    let mut writer = TablesWriter::create(dir, machines).unwrap();
    rows.into_iter().for_each(|row| writer.row(row));
    writer.finish().unwrap();
}

fn read(dir: &Path, range: Range) -> Vec<Told> {
    let mut kept = Kept::default();
    let rows = read_rows(dir, range, &mut kept).unwrap();
    assert_eq!(rows, kept.0.len() as u64);
    kept.0
}

fn sorted(mut rows: Vec<Told>) -> Vec<String> {
    rows.sort_by_key(|row| format!("{row:?}"));
    rows.iter().map(|row| format!("{row:?}")).collect()
}

fn number(row: &Told, column: &str) -> Option<Option<i64>> {
    let (_, cell) = row.1.iter().find(|(name, _)| name == column)?;
    Some(match cell {
        Cell::I64(v) => Some(*v),
        _ => None,
    })
}

fn with(mut row: Told, column: &str, value: i64) -> Told {
    let cell = row.1.iter_mut().find(|(name, _)| name == column).unwrap();
    cell.1 = Cell::I64(value);
    row
}

/// What an excerpt should have, told row by row.
fn expected(rows: &[Told], range: Range) -> Vec<Told> {
    let mut kept = Vec::new();
    let mut held: BTreeMap<String, Told> = BTreeMap::new();
    for row in rows {
        let Some(Some(ts)) = number(row, "ts") else {
            kept.push(row.clone());
            continue;
        };
        let dur = number(row, "dur").flatten();
        match row.0.as_str() {
            "cpu_slices" | "vcpu_states" | "thread_states" | "domain_states" => {
                if range.meets(ts, dur) {
                    let (ts, dur) = range.part_of(ts, dur.unwrap());
                    kept.push(with(with(row.clone(), "ts", ts), "dur", dur));
                }
            }
            "windows" => {
                if range.meets(ts, dur) && range.covers(ts, dur.unwrap()) {
                    kept.push(row.clone());
                }
            }
            table => {
                if range.meets(ts, dur) {
                    kept.push(row.clone());
                }
                if table == "counters" && ts <= range.from {
                    let subject =
                        row.1.iter().filter(|(name, _)| !matches!(name.as_str(), "ts" | "value"));
                    let subject = format!("{:?}", subject.collect::<Vec<_>>());
                    let known = held.get(&subject).and_then(|row| number(row, "ts").flatten());
                    if known.is_none_or(|known| known <= ts) {
                        held.insert(subject, row.clone());
                    }
                }
            }
        }
    }
    let begins = |row: &Told| number(row, "ts").flatten() == Some(range.from);
    kept.extend(
        held.into_values().filter(|row| !begins(row)).map(|row| with(row, "ts", range.from)),
    );
    kept
}

fn cut(tables: &Path, to: &Path, range: Range) -> Result<Written, StoreError> {
    let cut = Cut { tables, to, range, with_windows: true, max_bytes: u64::MAX };
    cut.write(&mut |_| {})
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    /// Rows of every table, whatever is in them, come back as they were.
    #[test]
    fn rows_come_back(seed: u64, count in 0u64..400, machines in 1usize..30) {
        let mut rng = Rng(seed);
        let rows: Vec<Row> = (0..count).map(|at| row(at % KINDS, &mut rng)).collect();
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), machines, rows.clone());
        let read = read(dir.path(), Range::ALL);
        prop_assert_eq!(sorted(read), sorted(rows.iter().map(told).collect()));
    }

    /// An excerpt has what the rule of each table says, and an excerpt of it what one of the whole has.
    #[test]
    fn an_excerpt_is_the_rows_of_its_range(
        seed: u64,
        count in 0u64..600,
        machines in 1usize..30,
        ends in (0u32..63, any::<u64>(), 0u32..63, any::<u64>()),
    ) {
        let mut rng = Rng(seed);
        let rows: Vec<Row> = (0..count).map(|at| row(at % KINDS, &mut rng)).collect();
        let (a, b) = ((ends.1 >> ends.0) as i64, (ends.3 >> ends.2) as i64);
        let range = Range { from: a.min(b), until: a.max(b).saturating_add(1) };
        let dirs = tempfile::tempdir().unwrap();
        let [whole, part, again] = ["whole", "part", "again"].map(|name| dirs.path().join(name));
        [&whole, &part, &again].iter().for_each(|dir| fs::create_dir(dir).unwrap());
        write(&whole, machines, rows.clone());
        let counts = cut(&whole, &part, range).unwrap().rows;
        let expected = expected(&read(&whole, Range::ALL), range);
        let found = read(&part, Range::ALL);
        prop_assert_eq!(counts.values().sum::<u64>(), found.len() as u64);
        prop_assert_eq!(sorted(found), sorted(expected.clone()));
        cut(&part, &again, range).unwrap();
        prop_assert_eq!(sorted(read(&again, Range::ALL)), sorted(expected));
        // Whole rows of a range are those that the rule of most tables keeps.
        let meeting = read(&whole, range);
        let has_met = |row: &Told| match number(row, "ts") {
            Some(ts) => range.meets(ts.unwrap(), number(row, "dur").flatten()),
            None => true,
        };
        prop_assert!(meeting.iter().all(has_met));
        let all = read(&whole, Range::ALL);
        prop_assert_eq!(meeting.len(), all.iter().filter(|row| has_met(row)).count());
    }
}

fn state(ts: i64, dur: i64, tid: i32) -> ThreadStateRow {
    ThreadStateRow {
        ts,
        dur,
        machine_id: MachineId(0),
        tid: Tid(tid),
        cpu: None,
        state: ThreadState::Running,
        effective: None,
        reason: (tid == 1).then_some('D'),
        waker_tid: (ts % 3 == 0).then_some(Tid(7)),
        waker_context: (ts % 3 == 0).then_some(Context::Task),
    }
}

/// Three row groups of two threads that tile time, and one that sleeps so long that its rows are late.
fn large(dir: &Path) -> i64 {
    let mut rows = Vec::new();
    let end = 300_000 * 10;
    for step in 0..300_000 {
        rows.push(state(step * 10, 10, 1));
        rows.push(state(step * 10, 10, 2));
        if step == 299_000 {
            rows.push(state(0, 2_990_010, 3));
        }
    }
    rows.push(state(2_990_010, end - 2_990_010, 3));
    write(dir, 1, rows.into_iter().map(Row::ThreadState));
    end
}

/// Rows of many groups and lanes come in order of time, and tile what they were cut to.
#[test]
fn late_rows_come_in_their_place_and_are_cut_too() {
    let dirs = tempfile::tempdir().unwrap();
    let [whole, part] = ["whole", "part"].map(|name| dirs.path().join(name));
    [&whole, &part].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let end = large(&whole);
    assert!(whole.join("thread_states/machine_id=0/late=0.parquet").exists());
    let mut tables = Tables::default();
    read_rows(&whole, Range::ALL, &mut tables).unwrap();
    assert_eq!(tables.thread_states.len(), 600_002);
    assert!(tables.thread_states.is_sorted_by_key(|row| row.ts));
    let range = Range { from: 1_000_005, until: 2_000_001 };
    let rows = cut(&whole, &part, range).unwrap().rows;
    let mut tables = Tables::default();
    read_rows(&part, Range::ALL, &mut tables).unwrap();
    assert_eq!(rows["thread_states"], tables.thread_states.len() as u64);
    for tid in 1..=3 {
        let of = tables.thread_states.iter().filter(|row| row.tid == Tid(tid));
        let mut at = range.from;
        for row in of {
            assert_eq!(row.ts, at, "tid {tid}: a gap or an overlap");
            at += row.dur;
        }
        assert_eq!(at, range.until, "tid {tid}");
    }
    let missing =
        tables.thread_states.iter().filter(|row| row.reason.is_some() != (row.tid == Tid(1)));
    assert_eq!(missing.count(), 0, "values that went to another row");
    assert_eq!(span_of(&whole).unwrap(), None, "there is no CPU");
    assert!(end > range.until);
}

#[test]
fn the_span_is_that_of_the_slices() {
    use transect_model::ids::CpuId;
    use transect_model::table::CpuSlice;
    let dir = tempfile::tempdir().unwrap();
    let slice = |ts, dur, cpu| {
        let (cpu, machine_id) = (CpuId(cpu), MachineId(0));
        Row::CpuSlice(CpuSlice {
            ts,
            dur,
            machine_id,
            cpu,
            tid: None,
            vcpu_machine_id: None,
            vcpu: None,
        })
    };
    write(dir.path(), 1, [slice(-7, 100, 0), slice(93, 5, 0), slice(-7, 105, 1)]);
    assert_eq!(span_of(dir.path()).unwrap(), Some((-7, 98)));
}

fn excerpt(dir: &Path) -> Excerpt {
    let excerpt = Excerpt {
        of: "big.transect".to_owned(),
        from: 1_000_005,
        until: 2_000_001,
        unit: "ns".to_owned(),
        transect: "0".to_owned(),
        made_unix_ns: 1,
        events: 0,
    };
    let whole = dir.join("whole");
    fs::create_dir(&whole).unwrap();
    large(&whole);
    let writer = ExcerptWriter::create(&dir.join("small.transect")).unwrap();
    let range = Range { from: excerpt.from, until: excerpt.until };
    let rows = cut(&whole, &writer.tables(), range).unwrap();
    writer.finish(Manifest::new(0, Vec::new()), excerpt.clone(), rows).unwrap();
    excerpt
}

/// Whatever is missing, cut, added or told otherwise is one error that names it.
#[test]
fn a_broken_excerpt_is_told() {
    let dirs = tempfile::tempdir().unwrap();
    let entry = excerpt(dirs.path());
    let dir = dirs.path().join("small.transect");
    let opened = open_excerpt(&dir, &entry).unwrap();
    assert!(!opened.is_new && opened.stamp.rows["thread_states"] > 0);
    let error = |entry: &Excerpt| {
        let error = open_excerpt(&dir, entry).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1, "{error}");
        error
    };
    let lies = Excerpt { until: entry.until + 1, ..entry.clone() };
    assert!(error(&lies).contains("not the tables of"));
    let file = dir.join("tables/thread_states/machine_id=0/bucket=0.parquet");
    let bytes = fs::read(&file).unwrap();
    let name = "bucket=0.parquet";
    for len in [0, 4, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&file, &bytes[..len]).unwrap();
        assert!(error(&entry).contains(name), "{len}");
    }
    // As long as it was, but not what it was.
    for at in [0, bytes.len() - 1, bytes.len() - 6, bytes.len() - 40] {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        fs::write(&file, &changed).unwrap();
        let read = open_excerpt(&dir, &entry)
            .and_then(|tables| read_rows(&tables.path, Range::ALL, &mut Kept::default()));
        let error = of_broken(read.unwrap_err()).to_string();
        assert!(error.contains(name) && error.contains("copy the excerpt again"), "{error}");
    }
    fs::remove_file(&file).unwrap();
    assert!(error(&entry).contains("missing"));
    fs::write(&file, &bytes).unwrap();
    let stray = dir.join("tables/exits");
    fs::create_dir(&stray).unwrap();
    fs::write(stray.join("bucket=0.parquet"), &bytes).unwrap();
    assert!(error(&entry).contains("not the excerpt's"));
    fs::remove_dir_all(&stray).unwrap();
    let stamp = dir.join("tables/stamp.json");
    let text = fs::read_to_string(&stamp).unwrap();
    fs::write(&stamp, text.replace("\"layout\": 2", "\"layout\": 1")).unwrap();
    assert!(error(&entry).contains("damaged"), "no layout is believed behind a broken seal");
    fs::write(&stamp, resealed(&text.replace("\"layout\": 2", "\"layout\": 999"))).unwrap();
    assert!(error(&entry).contains("another version"));
    fs::write(&stamp, "{\n  \"basis\": { \"layout\": 1 }\n}").unwrap();
    assert!(error(&entry).contains("another version"));
    let list = dir.join("tables").join(LIST_FILE_NAME);
    let bytes = fs::read(&list).unwrap();
    fs::write(&stamp, &text).unwrap();
    fs::remove_file(&list).unwrap();
    assert!(error(&entry).contains(LIST_FILE_NAME));
    fs::write(&list, bytes).unwrap();
    fs::write(&stamp, &text[..text.len() / 2]).unwrap();
    assert!(error(&entry).contains("stamp.json"));
    fs::write(&stamp, &text).unwrap();
    open_excerpt(&dir, &entry).unwrap();
}

/// A stamp whose content was changed on purpose.
fn resealed(text: &str) -> String {
    let (content, _) = text.rsplit_once(",\n  \"checksum\"").unwrap();
    seal(&format!("{content}\n}}"))
}

/// Replaces the list of checksums, and has the stamp belong to it.
fn put_list(tables: &Path, list: &List) {
    let stamp = tables.join("stamp.json");
    let text = fs::read_to_string(&stamp).unwrap();
    let [old, new] = [fs::read(tables.join(LIST_FILE_NAME)).unwrap(), list.encode()];
    let crc = |bytes: &[u8]| format!("\"crc32\": {}", ListSum::of(bytes).crc32);
    let length = |bytes: &[u8]| format!("\"bytes\": {},", bytes.len());
    let text = text.replace(&crc(&old), &crc(&new)).replace(&length(&old), &length(&new));
    fs::write(tables.join(LIST_FILE_NAME), new).unwrap();
    fs::write(stamp, resealed(&text)).unwrap();
}

/// The file of another table in the place of a table's: its columns tell.
#[test]
fn other_columns_are_told() {
    let dirs = tempfile::tempdir().unwrap();
    let entry = excerpt(dirs.path());
    let dir = dirs.path().join("small.transect");
    let (from, to) = ("thread_states/machine_id=0", "exits/machine_id=0");
    let tables = dir.join("tables");
    fs::create_dir(tables.join("exits")).unwrap();
    fs::rename(tables.join(from), tables.join(to)).unwrap();
    let mut list = List::decode(&fs::read(tables.join(LIST_FILE_NAME)).unwrap()).unwrap();
    let files = std::mem::take(&mut list.files).into_iter();
    list.files = files.map(|(name, sums)| (name.replace(from, to), sums)).collect();
    put_list(&tables, &list);
    let error = open_excerpt(&dir, &entry).unwrap_err();
    assert!(matches!(error, StoreError::OtherTable { table: "exits", .. }), "{error}");
}

/// Bytes that decode to nonsense, or not at all, are an error of reading and never a panic of ours.
#[test]
fn damaged_pages_are_errors() {
    let dirs = tempfile::tempdir().unwrap();
    let tables = dirs.path().to_owned();
    write(&tables, 1, (0..5_000).map(|at| Row::ThreadState(state(at * 3, 3, at as i32 % 50))));
    let file = tables.join("thread_states/machine_id=0/bucket=0.parquet");
    let bytes = fs::read(&file).unwrap();
    let mut rng = Rng(7);
    let mut failed = 0;
    for _ in 0..60 {
        let mut changed = bytes.clone();
        let at = rng.below(bytes.len() as u64) as usize;
        changed[at] ^= 1 << rng.below(8);
        fs::write(&file, &changed).unwrap();
        if let Err(error) = read_rows(&tables, Range::ALL, &mut Kept::default()) {
            let error = error.to_string();
            assert!(
                error.contains("bucket=0.parquet") || error.contains("thread_states"),
                "{error}"
            );
            failed += 1;
        }
    }
    assert!(failed > 5, "{failed} of 60 changes were noticed");
}

#[test]
fn a_part_that_is_too_large_is_refused() {
    let dirs = tempfile::tempdir().unwrap();
    let [whole, part] = ["whole", "part"].map(|name| dirs.path().join(name));
    [&whole, &part].iter().for_each(|dir| fs::create_dir(dir).unwrap());
    large(&whole);
    let range = Range::ALL;
    let cut = Cut { tables: &whole, to: &part, range, with_windows: true, max_bytes: 1000 };
    let error = cut.write(&mut |_| {}).unwrap_err();
    assert!(matches!(error, StoreError::ExcerptTooLarge { max_bytes: 1000 }), "{error}");
}

/// Nothing is left of an excerpt that was not finished, and nothing that is there is touched.
#[test]
fn an_excerpt_is_there_as_a_whole_or_not_at_all() {
    let dirs = tempfile::tempdir().unwrap();
    let dir = dirs.path().join("small.transect/");
    drop(ExcerptWriter::create(&dir).unwrap());
    assert_eq!(fs::read_dir(dirs.path()).unwrap().count(), 0);
    fs::create_dir(&dir).unwrap();
    drop(ExcerptWriter::create(&dir).unwrap());
    fs::write(dir.join("mine"), "x").unwrap();
    assert!(matches!(ExcerptWriter::create(&dir), Err(StoreError::Exists(_))));
    let file = dirs.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(matches!(ExcerptWriter::create(&file), Err(StoreError::Exists(_))));
    assert_eq!(fs::read(&file).unwrap(), b"x");
}
