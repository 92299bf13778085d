//! Tables of small files in every layout, against a plain filter of all their rows.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use super::{Condition, Lookup, Wanted};
use crate::error::TimelineError;
use crate::rows::metadata_of;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt32Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;
use transect_integrity::KnownFile;

/// One row of a made-up table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    ts: i64,
    dur: i64,
    machine: u32,
    tid: Option<i32>,
    is_running: bool,
    /// Tells rows with equal values apart.
    number: i64,
}

const STATES: [&str; 2] = ["blocked", "running"];

fn made(ts: i64, machine: u32, tid: i32) -> Made {
    Made { ts, dur: 10, machine, tid: Some(tid), is_running: ts % 2 == 0, number: ts }
}

fn batch(rows: &[Made]) -> RecordBatch {
    let i64s = |get: fn(&Made) -> i64| -> ArrayRef {
        Arc::new(rows.iter().map(get).collect::<Int64Array>())
    };
    let state = rows.iter().map(|row| STATES[usize::from(row.is_running)]);
    RecordBatch::try_from_iter_with_nullable([
        ("ts", i64s(|row| row.ts), false),
        ("dur", i64s(|row| row.dur), false),
        (
            "machine_id",
            Arc::new(rows.iter().map(|row| row.machine).collect::<UInt32Array>()),
            false,
        ),
        ("tid", Arc::new(rows.iter().map(|row| row.tid).collect::<Int32Array>()), true),
        ("state", Arc::new(StringArray::from_iter_values(state)), false),
        (
            "is_running",
            Arc::new(BooleanArray::from_iter(rows.iter().map(|row| Some(row.is_running)))),
            false,
        ),
        ("number", i64s(|row| row.number), false),
    ])
    .unwrap()
}

fn write(path: &Path, batch: &RecordBatch, group_rows: usize) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(group_rows)).build();
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(batch).unwrap();
    writer.close().unwrap();
}

/// Tables of these files, in row groups of three rows.
fn tables(files: &[(&str, &[Made])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (path, rows) in files {
        write(&dir.path().join(path), &batch(rows), 3);
    }
    dir
}

fn column(batches: &[RecordBatch], name: &str) -> Vec<i64> {
    let of_batch = |batch: &RecordBatch| {
        let column = cast(batch.column_by_name(name).unwrap(), &DataType::Int64).unwrap();
        column.as_primitive::<Int64Type>().values().to_vec()
    };
    batches.iter().flat_map(of_batch).collect()
}

fn numbers(dir: &TempDir, wanted: &Wanted) -> Vec<i64> {
    column(&Lookup::new(dir.path()).rows("t", wanted).unwrap(), "number")
}

fn only(only: Condition) -> Wanted {
    Wanted { only, ..Wanted::default() }
}

#[test]
fn buckets_late_files_and_machines_are_merged_by_ts() {
    let dir = tables(&[
        ("t/machine_id=0/bucket=0.parquet", &[made(1, 0, 5), made(4, 0, 5), made(5, 0, 6)]),
        ("t/machine_id=0/bucket=2.parquet", &[made(6, 0, 5)]),
        ("t/machine_id=0/bucket=10.parquet", &[made(9, 0, 5), made(12, 0, 5)]),
        ("t/machine_id=0/late=0.parquet", &[made(2, 0, 7), made(8, 0, 7)]),
        ("t/machine_id=0/late=1.parquet", &[made(0, 0, 8)]),
        ("t/machine_id=1/bucket=0.parquet", &[made(3, 1, 5), made(7, 1, 5), made(10, 1, 5)]),
    ]);
    assert_eq!(numbers(&dir, &Wanted::default()), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12]);
    let of_machine = only(Condition::number("machine_id", 1));
    assert_eq!(numbers(&dir, &of_machine), [3, 7, 10]);
    let within = Wanted { ts: Some(2..8), limit: 4, ..Wanted::default() };
    assert_eq!(numbers(&dir, &within), [2, 3, 4, 5]);
    let none = Wanted { limit: 0, ..Wanted::default() };
    assert!(numbers(&dir, &none).is_empty());
}

#[test]
fn single_files_and_events_are_found() {
    let dir = tables(&[
        ("t.parquet", &[made(1, 0, 5)]),
        ("t/part.parquet", &[made(0, 0, 5)]),
        ("t/.hidden.parquet", &[made(9, 0, 5)]),
        ("events/name=kvm_exit/part.parquet", &[made(3, 0, 5)]),
    ]);
    assert_eq!(numbers(&dir, &Wanted::default()), [0, 1]);
    let lookup = Lookup::new(dir.path());
    let events = lookup.rows("events/kvm_exit", &Wanted::default()).unwrap();
    assert_eq!(column(&events, "number"), [3]);
    assert!(lookup.rows("events/kvm_entry", &Wanted::default()).unwrap().is_empty());
    assert!(lookup.rows("nothing", &Wanted::default()).unwrap().is_empty());
}

#[test]
fn columns_come_in_the_order_asked_for_and_missing_ones_are_null() {
    let dir = tables(&[("t/bucket=0.parquet", &[made(1, 0, 5), made(2, 0, 5)])]);
    let columns = vec!["state", "no_such", "dur"];
    let wanted = Wanted { columns: columns.clone(), ts: Some(2..3), ..Wanted::default() };
    let found = Lookup::new(dir.path()).rows("t", &wanted).unwrap();
    let [row] = found.as_slice() else { panic!("{found:?}") };
    let names: Vec<_> = row.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, columns);
    assert_eq!(row.column(1).logical_null_count(), 1);
    // Nothing but what is missing: the rows are there all the same.
    let wanted = Wanted { columns: vec!["no_such"], ..Wanted::default() };
    let found = Lookup::new(dir.path()).rows("t", &wanted).unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}

#[test]
fn conditions_on_missing_columns_take_them_for_null() {
    let dir = tables(&[("t/bucket=0.parquet", &[made(1, 0, 5)])]);
    let count = |condition| numbers(&dir, &only(condition)).len();
    assert_eq!(count(Condition::Null("no_such")), 1);
    assert_eq!(count(Condition::Known("no_such")), 0);
    assert_eq!(count(Condition::Not("no_such", 1)), 0);
    assert_eq!(count(Condition::number("no_such", 1)), 0);
    assert_eq!(count(Condition::Is("no_such", "x".to_owned())), 0);
}

#[test]
fn tables_without_ts_keep_the_order_of_their_files() {
    let dir = tempfile::tempdir().unwrap();
    let ids = |values: Vec<u32>| -> ArrayRef { Arc::new(UInt32Array::from(values)) };
    for (bucket, values) in [(0, vec![7, 3, 9, 1]), (1, vec![2, 8])] {
        let batch = RecordBatch::try_from_iter([("machine_id", ids(values))]).unwrap();
        write(&dir.path().join(format!("machines/bucket={bucket}.parquet")), &batch, 2);
    }
    let lookup = Lookup::new(dir.path());
    let all = lookup.rows("machines", &Wanted::default()).unwrap();
    assert_eq!(column(&all, "machine_id"), [7, 3, 9, 1, 2, 8]);
    let some =
        Wanted { only: Condition::Between("machine_id", 3..9), limit: 2, ..Wanted::default() };
    let some = lookup.rows("machines", &some).unwrap();
    assert_eq!(column(&some, "machine_id"), [7, 3]);
}

#[test]
fn rows_beyond_the_limit_are_not_read() {
    let rows: Vec<Made> = (0..30).map(|ts| made(ts, 0, 5)).collect();
    let dir = tables(&[("t/bucket=0.parquet", &rows)]);
    // A page of the last row group is overwritten; the footer is not.
    let path = dir.path().join("t/bucket=0.parquet");
    let known = KnownFile::unknown(&path);
    let metadata = metadata_of(&known.open().unwrap(), &known).unwrap();
    let last = metadata.metadata().row_groups().last().unwrap();
    let (from, length) = last.column(0).byte_range();
    let (from, to) = (usize::try_from(from).unwrap(), usize::try_from(from + length).unwrap());
    let mut bytes = fs::read(&path).unwrap();
    bytes[from..to].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let first = Wanted { limit: 2, ..Wanted::default() };
    assert_eq!(numbers(&dir, &first), [0, 1]);
    let all = Lookup::new(dir.path()).rows("t", &Wanted::default()).unwrap_err();
    assert!(matches!(&all, TimelineError::Table { path: at, .. } if *at == path), "{all}");
    // A reader ends at the error.
    let mut rows = Lookup::new(dir.path()).open("t", &Wanted::default()).unwrap();
    assert!(rows.by_ref().any(|batch| batch.is_err()));
    assert!(rows.next().is_none());
}

#[test]
fn damaged_files_are_errors_that_name_them() {
    let dir = tables(&[("t/bucket=0.parquet", &[made(1, 0, 5), made(2, 0, 5)])]);
    let path = dir.path().join("t/bucket=0.parquet");
    let whole = fs::read(&path).unwrap();
    for length in [0, 3, 11, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let error = Lookup::new(dir.path()).rows("t", &Wanted::default()).unwrap_err();
        assert!(matches!(&error, TimelineError::Table { path: at, .. } if *at == path), "{error}");
    }
    // Whichever byte is wrong: rows or an error.
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&path, &bytes).unwrap();
        let wanted = Wanted { ts: Some(0..2), ..only(Condition::number("tid", 5)) };
        let _ = Lookup::new(dir.path()).rows("t", &wanted);
    }
}

#[test]
fn row_at_finds_the_interval_that_covers_a_moment() {
    // Thread 7 sleeps from 2 to 40, which was written late; thread 5 changes every 10.
    let long = Made { dur: 38, ..made(2, 0, 7) };
    let of_five: Vec<Made> = (0..10).map(|at| made(at * 10, 0, 5)).collect();
    let dir = tables(&[
        ("t/machine_id=0/bucket=0.parquet", &of_five[..5]),
        ("t/machine_id=0/bucket=1.parquet", &of_five[5..]),
        ("t/machine_id=0/late=0.parquet", &[long, made(40, 0, 7)]),
    ]);
    let lookup = Lookup::new(dir.path());
    let row_at = |tid: i32, at| {
        let wanted = Wanted { columns: vec!["number"], ..only(Condition::number("tid", tid)) };
        let row = lookup.row_at("t", &wanted, at).unwrap();
        row.map(|row| column(&[row], "number")[0])
    };
    for at in 0..100 {
        assert_eq!(row_at(5, at), Some(at / 10 * 10), "{at}");
        let of_seven = (2..50).contains(&at).then_some(if at < 40 { 2 } else { 40 });
        assert_eq!(row_at(7, at), of_seven, "{at}");
    }
    assert_eq!((row_at(5, -1), row_at(5, 100), row_at(6, 50)), (None, None, None));
}

fn arbitrary_row() -> impl Strategy<Value = Made> {
    let tid = prop_oneof![3 => (0..4_i32).prop_map(Some), 1 => Just(None)];
    (0..60_i64, 0..20_i64, 0..3_u32, tid, any::<bool>()).prop_map(
        |(ts, dur, machine, tid, is_running)| Made { ts, dur, machine, tid, is_running, number: 0 },
    )
}

fn arbitrary_condition() -> impl Strategy<Value = Condition> {
    let leaf = prop_oneof![
        prop::collection::btree_set(0..4_i64, 0..3).prop_map(|set| Condition::In("tid", set)),
        prop::collection::btree_set(0..4_i64, 0..3)
            .prop_map(|set| Condition::In("machine_id", set)),
        (0..2_i64).prop_map(|is| Condition::number("is_running", is)),
        (0..4_i64, 0..4_i64).prop_map(|(from, to)| Condition::Between("tid", from..to)),
        (0..4_i64).prop_map(|tid| Condition::Not("tid", tid)),
        (0..2_usize).prop_map(|at| Condition::Is("state", STATES[at].to_owned())),
        prop_oneof![Just("tid"), Just("ts"), Just("no_such")].prop_map(Condition::Null),
        prop_oneof![Just("tid"), Just("ts"), Just("no_such")].prop_map(Condition::Known),
        (0..80_i64).prop_map(Condition::EndsAfter),
        (0..80_i64).prop_map(Condition::EndsAt),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let parts = || prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![parts().prop_map(Condition::All), parts().prop_map(Condition::Any)]
    })
}

/// The condition as its documentation defines it.
fn holds(condition: &Condition, row: &Made) -> bool {
    let number = |column: &str| match column {
        "ts" => Some(row.ts),
        "machine_id" => Some(i64::from(row.machine)),
        "tid" => row.tid.map(i64::from),
        "is_running" => Some(i64::from(row.is_running)),
        _ => None,
    };
    match condition {
        Condition::All(parts) => parts.iter().all(|part| holds(part, row)),
        Condition::Any(parts) => parts.iter().any(|part| holds(part, row)),
        Condition::In(column, set) => number(column).is_some_and(|number| set.contains(&number)),
        Condition::Between(column, range) => {
            number(column).is_some_and(|number| range.contains(&number))
        }
        Condition::Not(column, other) => number(column).is_some_and(|number| number != *other),
        Condition::Is(_, word) => STATES[usize::from(row.is_running)] == word,
        Condition::Null(column) => number(column).is_none(),
        Condition::Known(column) => number(column).is_some(),
        Condition::EndsAfter(at) => row.ts + row.dur > *at,
        Condition::EndsAt(at) => row.ts + row.dur == *at,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn lookup_is_a_filter_of_all_rows(
        rows in prop::collection::vec((arbitrary_row(), 0..4_usize), 0..60),
        condition in arbitrary_condition(),
        range in prop::option::of((0..60_i64, 0..60_i64)),
        limit in prop_oneof![0..10_usize, Just(usize::MAX)],
        group_rows in 1..8_usize,
    ) {
        let mut rows = rows;
        rows.sort_by_key(|(row, _)| row.ts);
        for (number, (row, _)) in (0..).zip(&mut rows) {
            row.number = number;
        }
        let dir = tempfile::tempdir().unwrap();
        let of = |wanted: &dyn Fn(&Made, usize) -> bool| -> Vec<Made> {
            let some = rows.iter().filter(|(row, file)| wanted(row, *file));
            some.map(|(row, _)| *row).collect()
        };
        for machine in 0..3 {
            let folder = dir.path().join(format!("t/machine_id={machine}"));
            let in_order = of(&|row, file| row.machine == machine && file < 2);
            let (first, second) = in_order.split_at(in_order.len() / 2);
            let parts = [
                ("bucket=9", first.to_vec()),
                ("bucket=10", second.to_vec()),
                ("late=0", of(&|row, file| row.machine == machine && file == 2)),
                ("late=1", of(&|row, file| row.machine == machine && file == 3)),
            ];
            for (name, rows) in parts.iter().filter(|(_, rows)| !rows.is_empty()) {
                write(&folder.join(format!("{name}.parquet")), &batch(rows), group_rows);
            }
        }
        let ts: Option<Range<i64>> = range.map(|(from, to)| from..to);
        let passes = |row: &Made| {
            ts.as_ref().is_none_or(|ts| ts.contains(&row.ts)) && holds(&condition, row)
        };
        let wanted = Wanted { columns: Vec::new(), ts: ts.clone(), only: condition.clone(), limit };
        let passed: Vec<Made> = of(&|row, _| passes(row));
        let found = Lookup::new(dir.path()).rows("t", &wanted).unwrap();
        let (found_ts, mut found_numbers) = (column(&found, "ts"), column(&found, "number"));
        // Rows with the same `ts` are in the order of the files.
        let expected: Vec<i64> = passed.iter().map(|row| row.ts).take(limit).collect();
        prop_assert_eq!(found_ts, expected);
        found_numbers.sort_unstable();
        if limit >= passed.len() {
            let all: Vec<i64> = passed.iter().map(|row| row.number).collect();
            prop_assert_eq!(found_numbers, all);
        } else {
            let is_passed = |number: &i64| passed.iter().any(|row| row.number == *number);
            prop_assert!(found_numbers.iter().all(is_passed));
        }
        let last = Lookup::new(dir.path()).last_row("t", &wanted).unwrap();
        let last = last.map(|row| column(&[row], "ts")[0]);
        prop_assert_eq!(last, passed.last().map(|row| row.ts));
    }
}
