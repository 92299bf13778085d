//! A query that needs much memory spills or fails with one line; one that takes long can be
//! stopped.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::common;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use transect_query::arrow::array::{Int32Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use transect_query::arrow::datatypes::{DataType, Field, Schema};
use transect_query::{Database, Options, QueryError, Stop};

/// A recording with a million thread states of as many threads.
fn many_rows() -> tempfile::TempDir {
    const ROWS: i64 = 1_000_000;
    let dir = tempfile::tempdir().unwrap();
    let schema = Schema::new(vec![
        Field::new("ts", DataType::Int64, false),
        Field::new("dur", DataType::Int64, false),
        Field::new("machine_id", DataType::UInt32, false),
        Field::new("tid", DataType::Int32, false),
        Field::new("state", DataType::Utf8, false),
    ]);
    let rows = usize::try_from(ROWS).unwrap();
    let batch = RecordBatch::try_new(
        Arc::new(schema),
        vec![
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|i| i * 7919 % 1_000_003))),
            Arc::new(UInt32Array::from_iter_values((0..rows).map(|_| 0))),
            Arc::new(Int32Array::from_iter_values((0..1_000_000).map(|i| i * 31 % 1_000_000))),
            Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("state number {i}")))),
        ],
    );
    common::write_parquet(&dir.path().join("thread_states.parquet"), &batch.unwrap());
    dir
}

fn database(dir: &tempfile::TempDir, memory_bytes: usize) -> Database {
    Database::open(dir.path(), &Options { memory_bytes, ..Options::default() }).unwrap()
}

#[test]
fn a_sort_larger_than_memory_spills() {
    let dir = many_rows();
    let sql = "SELECT first_value(dur) OVER (ORDER BY dur, state) AS f FROM thread_states LIMIT 1";
    let sql = format!("SELECT count(*) AS n, min(f) AS f FROM ({sql})");
    let sorted = "SELECT dur FROM (SELECT dur, state, tid FROM thread_states ORDER BY state, dur) \
                  WHERE state > '' LIMIT 3";
    let large = common::csv(&database(&dir, 1 << 30), sorted).unwrap();
    assert_eq!(common::csv(&database(&dir, 24 << 20), sorted).unwrap(), large);
    assert_eq!(common::csv(&database(&dir, 1 << 30), &sql).unwrap(), "n,f\n1,0\n");
}

#[test]
fn what_cannot_spill_fails_with_one_line_that_says_what_to_do() {
    let dir = many_rows();
    let sql = "SELECT quantile(dur, 0.5) FROM thread_states GROUP BY state ORDER BY 1 LIMIT 1";
    let error = common::csv(&database(&dir, 1 << 20), sql).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, QueryError::Run { .. }), "{text}");
    assert!(text.contains("more memory than 1M") && text.contains("--memory"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_join_holds_open_intervals_and_not_the_rows_it_read() {
    let dir = many_rows();
    // The right side's last row of each of 10 keys is all that an as-of join needs to keep.
    let sql = "SELECT count(*) AS n, count(right_ts) AS found FROM asof(
        'SELECT ts, tid % 10 AS k FROM thread_states', 'SELECT ts, tid % 10 AS k, state FROM thread_states', 'k')";
    let sql = sql.replace("count(right_ts)", "count(state)");
    let answer = common::csv(&database(&dir, 64 << 20), &sql).unwrap();
    assert_eq!(answer, "n,found\n1000000,1000000\n");
}

#[test]
fn a_query_stops_soon_after_it_is_told_to() {
    let dir = many_rows();
    let database = database(&dir, 1 << 30);
    let sql = "SELECT count(*) FROM thread_states AS a, thread_states AS b WHERE a.dur > b.dur + 5";
    let mut rows = database.run(database.parse(sql).unwrap().remove(0)).unwrap();
    let flag = Arc::new(AtomicBool::new(false));
    let stop = Stop::on(Arc::clone(&flag));
    let setter = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        flag.store(true, Ordering::Relaxed);
        Instant::now()
    });
    let error = rows.next(&stop).unwrap_err();
    drop(rows);
    // The workers are free again: at the prompt the next question is answered.
    assert_eq!(common::csv(&database, "SELECT 1 AS one").unwrap(), "one\n1\n");
    let took = setter.join().unwrap().elapsed();
    assert!(matches!(error, QueryError::Stopped), "{error}");
    assert!(took < Duration::from_secs(20), "it went on for {took:?}");
}
