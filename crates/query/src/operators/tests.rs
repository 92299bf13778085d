//! The joins against the definitions, row by row.

use super::register;
use crate::random::{Random, cases};
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::sync::Arc;

/// `ts`, `dur`, `k`, `id`.
type Row = (i64, Option<i64>, Option<i64>, i64);

fn rows(random: &mut Random, max: i64) -> Vec<Row> {
    let mut id = 0;
    random.list(max, |random| {
        let dur = match random.int(0..6) {
            0 => None,
            1 => Some(random.int(0..80)),
            _ => Some(random.int(0..12)),
        };
        let key = (!random.once_in(9)).then(|| random.int(0..3));
        id += 1;
        (random.int(0..60), dur, key, id - 1)
    })
}

/// The rows as a table of many small batches in two partitions, in no order.
fn table(rows: &[Row], batch_rows: usize) -> MemTable {
    let schema = Arc::new(Schema::new(vec![
        Field::new("ts", DataType::Int64, false),
        Field::new("dur", DataType::Int64, true),
        Field::new("k", DataType::Int64, true),
        Field::new("id", DataType::Int64, false),
    ]));
    let batch = |rows: &[Row]| {
        RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(rows.iter().map(|r| Some(r.0)).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|r| r.2).collect::<Int64Array>()),
                Arc::new(rows.iter().map(|r| Some(r.3)).collect::<Int64Array>()),
            ],
        )
        .unwrap()
    };
    let mut partitions = vec![Vec::new(), Vec::new()];
    for (at, rows) in rows.chunks(batch_rows).enumerate() {
        partitions[at % 2].push(batch(rows));
    }
    MemTable::try_new(Arc::clone(&schema), partitions).unwrap()
}

/// Runs `sql` over tables `l` and `r`; all columns are integers. Sorted.
fn answer(left: &[Row], right: &[Row], batch_rows: usize, sql: &str) -> Vec<Vec<Option<i64>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let config = SessionConfig::new()
        .with_batch_size(if left.len() > 1000 || right.len() > 1000 { 8192 } else { 4 })
        .with_target_partitions(2);
    let context = SessionContext::new_with_config(config);
    register(&context);
    context.register_table("l", Arc::new(table(left, batch_rows))).unwrap();
    context.register_table("r", Arc::new(table(right, batch_rows))).unwrap();
    let batches = runtime.block_on(async { context.sql(sql).await?.collect().await }).unwrap();
    let mut found = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let value = |c: &arrow::array::ArrayRef| {
                c.is_valid(row).then(|| c.as_primitive::<Int64Type>().value(row))
            };
            found.push(batch.columns().iter().map(value).collect());
        }
    }
    found.sort();
    found
}

fn equal(a: Option<i64>, b: Option<i64>) -> bool {
    a.is_some() && a == b
}

/// Where two intervals overlap: start and length.
fn overlap(a: &Row, b: &Row) -> Option<(i64, Option<i64>)> {
    let end = |row: &Row| row.1.map(|dur| row.0 + dur);
    let ts = a.0.max(b.0);
    // An instant counts as one ns for whether it lies in something.
    let is_in = |row: &Row| end(row).is_none_or(|end| ts < end.max(row.0 + 1));
    let first_end = [end(a), end(b)].into_iter().flatten().min();
    (is_in(a) && is_in(b)).then(|| (ts, first_end.map(|end| end - ts)))
}

#[test]
fn interval_join_gives_every_overlap_once() {
    cases(96, |random| {
        let (left, right) = (rows(random, 40), rows(random, 40));
        let sql = "SELECT ts, dur, id, right_id FROM interval_join('l', 'r', 'k')";
        let mut expected = Vec::new();
        for l in &left {
            for r in right.iter().filter(|r| equal(l.2, r.2)) {
                if let Some((ts, dur)) = overlap(l, r) {
                    expected.push(vec![Some(ts), dur, Some(l.3), Some(r.3)]);
                }
            }
        }
        expected.sort();
        assert_eq!(answer(&left, &right, batch_rows(random), sql), expected);
    });
}

#[test]
fn asof_gives_every_left_row_its_last_right_row() {
    cases(96, |random| {
        let (left, right) = (rows(random, 40), rows(random, 40));
        // Of right rows with the same stamp any may be the last: only the stamp is compared.
        let sql = "SELECT ts, id, right_ts FROM asof('l', 'r', 'k')";
        let last =
            |l: &Row| right.iter().filter(|r| equal(l.2, r.2) && r.0 <= l.0).map(|r| r.0).max();
        let mut expected: Vec<_> =
            left.iter().map(|l| vec![Some(l.0), Some(l.3), last(l)]).collect();
        expected.sort();
        assert_eq!(answer(&left, &right, batch_rows(random), sql), expected);
    });
}

#[test]
fn filters_and_columns_are_pushed_down_without_changing_the_answer() {
    cases(96, |random| {
        let (left, mut right) = (rows(random, 30), rows(random, 30));
        // Ties of asof may fall differently when fewer rows are read: each stamp once.
        let mut seen = std::collections::BTreeSet::new();
        right.retain(|row| seen.insert((row.0, row.2)));
        let (at, k) = (random.int(0..60), random.int(0..3));
        let filter =
            format!("ts < {at} AND k = {k} AND (right_id > 3 OR right_id IS NULL) AND id < 20");
        for join in ["asof", "interval_join"] {
            let all = format!("SELECT ts, id, k, right_id FROM {join}('l', 'r', 'k')");
            // A limit above all rows keeps the filters out of the join.
            let after = format!("SELECT id, right_id FROM ({all} LIMIT 100000) WHERE {filter}");
            let pushed = format!("SELECT id, right_id FROM {join}('l', 'r', 'k') WHERE {filter}");
            assert_eq!(
                answer(&left, &right, 5, &pushed),
                answer(&left, &right, 5, &after),
                "{join} where {filter}"
            );
        }
    });
}

#[test]
fn cut_keeps_the_time_and_puts_every_piece_in_one_bucket() {
    cases(96, |random| {
        let left = rows(random, 40);
        let (width, origin) = (random.int(1..20), random.int(0..30));
        let sql = format!("SELECT id, ts, dur FROM cut('l', {width}, {origin})");
        let pieces = answer(&left, &[], 3, &sql);
        let tile = |ts: i64| (ts - origin).div_euclid(width);
        for row in &left {
            let own: Vec<_> = pieces.iter().filter(|p| p[0] == Some(row.3)).collect();
            let Some(dur) = row.1 else {
                assert_eq!(own, [&[Some(row.3), Some(row.0), None]]);
                continue;
            };
            let mut at = row.0;
            for piece in own {
                let (ts, dur) = (piece[1].unwrap(), piece[2].unwrap());
                assert_eq!(ts, at);
                assert!(dur == 0 || tile(ts) == tile(ts + dur - 1));
                at = ts + dur;
            }
            assert_eq!(at, row.0 + dur);
        }
    });
}

fn batch_rows(random: &mut Random) -> usize {
    usize::try_from(random.int(1..9)).unwrap()
}

#[test]
fn compaction_loses_nothing_that_is_still_open() {
    // Far more rows than are held before ended ones are dropped; one interval stays open.
    let rows: Vec<Row> = (0..600_000)
        .map(|i| (i, Some(if i == 5 { 1_000_000 } else { 3 }), Some(i % 2), i))
        .collect();
    let right: Vec<Row> = (0..10).map(|i| (599_990 + i, Some(1), Some(1), i)).collect();
    let sql = "SELECT count(*) AS n, min(id) AS first FROM interval_join('l', 'r', 'k')";
    let expected: usize = right
        .iter()
        .map(|r| rows.iter().filter(|l| equal(l.2, r.2) && overlap(l, r).is_some()).count())
        .sum();
    let n = i64::try_from(expected).unwrap();
    assert_eq!(answer(&rows, &right, 8192, sql), [[Some(n), Some(5)]]);
    let sql = "SELECT count(right_id) AS n, sum(right_id) AS sum FROM asof('r', 'l', 'k')";
    let sum = right.iter().map(|r| if r.0 % 2 == 1 { r.0 } else { r.0 - 1 }).sum();
    assert_eq!(answer(&rows, &right, 8192, sql), [[Some(10), Some(sum)]]);
}
