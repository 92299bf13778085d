//! The tables as files: what goes in comes out, in order, within bounds.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests and their helpers: a failure is what they are for; numbers are small"
)]

use crate::read;
use crate::rows;

use parquet::basic::{ConvertedType, Encoding, Type};
use parquet::file::metadata::SortingColumn;
use parquet::file::reader::FileReader;
use proptest::prelude::*;
use read::{Value, files, open};
use rows::{KINDS, Make, Rng, parts, row};
use std::collections::BTreeMap;
use std::path::Path;
use transect_model::cell::{Cell, Record};
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_model::state::ThreadState;
use transect_model::table::{ColumnType, Row, TABLES, TableSink, ThreadStateRow};
use transect_store::tables::TablesWriter;

type Rows = Vec<Vec<(String, Value)>>;

fn write(
    dir: &Path,
    machines: usize,
    rows: impl IntoIterator<Item = Row>,
) -> BTreeMap<String, u64> {
    let mut writer = TablesWriter::create(dir, machines).unwrap();
    rows.into_iter().for_each(|row| writer.row(row));
    writer.finish().unwrap().rows
}

/// All rows of a table, file by file.
fn table(dir: &Path, table: &str) -> Rows {
    files(&dir.join(table)).iter().flat_map(|file| read::rows(file)).collect()
}

fn sorted(mut rows: Rows) -> Vec<String> {
    rows.sort_by_key(|row| format!("{row:?}"));
    rows.iter().map(|row| format!("{row:?}")).collect()
}

/// A row of the model, as the reader gives one.
fn cells(row: &dyn Record) -> Vec<(String, Value)> {
    let mut cells = Vec::new();
    row.each_cell(&mut |name, cell| {
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
    cells
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every row of every table comes back as it was, with few machines and with many.
    #[test]
    fn what_is_written_is_read(seed: u64, count in 0u64..400, machines in 1usize..30) {
        let mut rng = Rng(seed);
        let rows: Vec<Row> = (0..count).map(|at| row(at % KINDS, &mut rng)).collect();
        let dir = tempfile::tempdir().unwrap();
        let counts = write(dir.path(), machines, rows.clone());
        for doc in TABLES {
            let written: Rows = rows
                .iter()
                .map(parts)
                .filter(|(table, _)| table.name == doc.name)
                .map(|(_, row)| cells(row))
                .collect();
            prop_assert_eq!(counts[doc.name], written.len() as u64);
            prop_assert_eq!(sorted(table(dir.path(), doc.name)), sorted(written));
        }
    }
}

fn thread_state(ts: i64, dur: i64, tid: i32) -> Row {
    Row::ThreadState(ThreadStateRow {
        ts,
        dur,
        machine_id: MachineId(0),
        tid: Tid(tid),
        cpu: Some(CpuId(1)),
        state: ThreadState::Running,
        effective: None,
        reason: Some('S'),
        waker_tid: None,
        waker_context: None,
    })
}

fn ts_of(row: &[(String, Value)]) -> i64 {
    match &row[0] {
        (name, Cell::I64(ts)) if name == "ts" => *ts,
        other => panic!("{other:?} is not ts"),
    }
}

/// Rows come in order of their ends; some intervals are very long. The `bucket` files one behind
/// the other are in order of `ts`, so is each row group of the `late` ones, and those are few.
#[test]
fn files_are_in_order_of_time() {
    const COUNT: i64 = 700_000;
    let mut rng = Rng(7);
    let rows = (0..COUNT).map(|end| {
        let dur = if rng.below(5_000) == 0 { rng.below(end as u64 + 1) } else { rng.below(300) };
        thread_state(end - dur as i64, dur as i64, end as i32)
    });
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(write(dir.path(), 1, rows)["thread_states"], COUNT as u64);
    let (mut last, mut late, mut seen) = (i64::MIN, 0, vec![false; COUNT as usize]);
    for path in files(&dir.path().join("thread_states")) {
        let rows = read::rows(&path);
        let in_order = path.file_name().unwrap().to_string_lossy().starts_with("bucket=");
        for row in &rows {
            let (_, Cell::I64(tid)) = &row[3] else { panic!() };
            assert!(!std::mem::replace(&mut seen[*tid as usize], true), "row {tid} twice");
        }
        assert!(rows.is_sorted_by_key(|row| ts_of(row)), "{}", path.display());
        if in_order {
            assert!(ts_of(&rows[0]) >= last, "{}", path.display());
            last = ts_of(&rows[rows.len() - 1]);
        } else {
            late += rows.len();
        }
        let by_ts = vec![SortingColumn { column_idx: 0, descending: false, nulls_first: false }];
        for group in open(&path).metadata().row_groups() {
            assert_eq!(group.sorting_columns(), Some(&by_ts));
        }
    }
    assert!(seen.iter().all(|seen| *seen));
    assert!(late > 0 && late < 2_000, "{late} late rows");
}

/// The files' schema is the one that the model documents.
#[test]
fn the_schema_is_the_documented_one() {
    let mut rng = Rng(1);
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, (0..KINDS).map(|kind| row(kind, &mut rng)));
    for doc in TABLES {
        let found = files(&dir.path().join(doc.name));
        let [path] = &found[..] else { panic!("{}: {found:?}", doc.name) };
        let file = open(path);
        let schema = file.metadata().file_metadata().schema_descr();
        assert_eq!(schema.num_columns(), doc.columns.len(), "{}", doc.name);
        for (column, documented) in schema.columns().iter().zip(doc.columns) {
            assert_eq!(column.name(), documented.name);
            assert_eq!(column.self_type().is_optional(), documented.nullable);
            let expected = match documented.ty {
                ColumnType::Bool => (Type::BOOLEAN, ConvertedType::NONE),
                ColumnType::I32 => (Type::INT32, ConvertedType::NONE),
                ColumnType::U32 => (Type::INT32, ConvertedType::UINT_32),
                ColumnType::I64 => (Type::INT64, ConvertedType::NONE),
                ColumnType::U64 => (Type::INT64, ConvertedType::UINT_64),
                ColumnType::F64 => (Type::DOUBLE, ConvertedType::NONE),
                ColumnType::Text => (Type::BYTE_ARRAY, ConvertedType::UTF8),
            };
            assert_eq!((column.physical_type(), column.converted_type()), expected);
        }
    }
}

/// Stamps are delta-encoded with statistics for each page, words are in dictionaries.
#[test]
fn encodings_are_those_that_pay() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), 1, (0..100_000).map(|at| thread_state(at * 700, 650, 7)));
    let found = files(&dir.path().join("thread_states"));
    let metadata = open(&found[0]).metadata().clone();
    let column = |name: &str| {
        let group = metadata.row_group(0);
        group.columns().iter().find(|c| c.column_descr().name() == name).unwrap().clone()
    };
    let has = |name: &str, wanted: Encoding| column(name).encodings().any(|e| e == wanted);
    assert!(has("ts", Encoding::DELTA_BINARY_PACKED) && has("dur", Encoding::DELTA_BINARY_PACKED));
    assert!(has("state", Encoding::RLE_DICTIONARY) && has("tid", Encoding::RLE_DICTIONARY));
    assert!(column("ts").column_index_offset().is_some());
    let bytes = std::fs::metadata(&found[0]).unwrap().len();
    assert!(bytes < 100_000, "{bytes} bytes for 100,000 regular rows");
}

/// A machine's rows are in its own folder as long as there are few machines.
#[test]
fn few_machines_have_a_folder_each() {
    let mut rng = Rng(3);
    let make = |rng: &mut Rng, machine| match thread_state(i64::make(rng), 1, 1) {
        Row::ThreadState(row) => Row::ThreadState(ThreadStateRow { machine_id: machine, ..row }),
        other => other,
    };
    for (machines, folders) in [(3, 3), (1_000, 0)] {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), machines, (0..90).map(|at| make(&mut rng, MachineId(at % 3))));
        let dir = dir.path().join("thread_states");
        let of = |at: i32| files(&dir.join(format!("machine_id={at}"))).len();
        assert_eq!((0..3).map(of).sum::<usize>(), folders);
        assert_eq!(files(&dir).len(), folders.max(1));
    }
}

/// A file that cannot be made is an error at the end, and not before.
#[test]
fn an_error_is_told_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thread_states"), "in the way").unwrap();
    let mut writer = TablesWriter::create(dir.path(), 1).unwrap();
    (0..600_000).for_each(|at| writer.row(thread_state(at, 1, 1)));
    let error = writer.finish().unwrap_err().to_string();
    assert!(error.contains("thread_states"), "{error}");
}
