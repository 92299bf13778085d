//! The tables of real recordings as files: complete, fresh, and readable by another program.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests report by failing"
)]

use crate::record_support::Tiny;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn testdata(name: &str) -> String {
    let path = root().join("testdata/succeed/tracedat").join(name);
    path.to_str().unwrap().to_owned()
}

/// Runs the binary with a cache of its own.
fn transect(cache: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(words).env("XDG_CACHE_HOME", cache).stdin(Stdio::null()).output().unwrap()
}

/// `transect tables --json`.
fn tables(cache: &Path, words: &[&str]) -> Value {
    let output = transect(cache, &[&["tables", "--json"], words].concat());
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every row of the engine, by table.
fn exported(cache: &Path, recording: &str) -> BTreeMap<String, Vec<Map<String, Value>>> {
    let output = transect(cache, &["export", recording, "--to", "jsonl", "-o", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut tables: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let mut row: Map<String, Value> = serde_json::from_str(line).unwrap();
        let table = row.remove("table").unwrap().as_str().unwrap().to_owned();
        tables.entry(table).or_default().push(row);
    }
    tables
}

/// The host and guest recorded together, as one recording.
fn pair(dir: &Path) -> String {
    let recording = dir.join("pair.transect").to_str().unwrap().to_owned();
    let (host, guest) = (testdata("pair-host.dat"), testdata("pair-guest.dat"));
    let output = transect(dir, &["import", &host, &guest, "-o", &recording]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    recording
}

fn recordings(dir: &Path) -> Vec<String> {
    let names =
        ["v7-all.dat", "hypercalls.dat", "lost-slow.dat", "v7-instances.dat", "odd-be32.dat"];
    let xen = ["pv.bin", "lost.bin", "live/cap.bin", "live/life.bin"];
    let xen = xen.map(|name| root().join("testdata/succeed/xentrace").join(name));
    let xen = xen.into_iter().map(|path| path.to_str().unwrap().to_owned());
    names.map(testdata).into_iter().chain([pair(dir)]).chain(xen).collect()
}

/// As many rows in each table as the engine makes, and every event that a report counts.
#[test]
fn every_row_is_in_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    for recording in recordings(dir.path()) {
        let made = tables(dir.path(), &[&recording]);
        let rows = made["rows"].as_object().unwrap();
        let exported = exported(dir.path(), &recording);
        for (table, count) in rows.iter().filter(|(table, _)| !table.starts_with("events/")) {
            let expected = exported.get(table).map_or(0, Vec::len);
            assert_eq!(count.as_u64(), Some(expected as u64), "{table} of {recording}");
        }
        assert!(exported.keys().all(|table| rows.contains_key(table)));
    }
}

/// The numbers of one recording, so that a change of any of them is noticed.
#[test]
fn the_pair_has_the_rows_it_always_had() {
    let dir = tempfile::tempdir().unwrap();
    let made = tables(dir.path(), &[&pair(dir.path())]);
    let golden = root().join("testdata/golden/tables-pair.json");
    let rows = serde_json::to_string_pretty(&made["rows"]).unwrap() + "\n";
    if std::env::var_os("TRANSECT_BLESS").is_some() {
        fs::create_dir_all(golden.parent().unwrap()).unwrap();
        fs::write(&golden, &rows).unwrap();
    }
    assert_eq!(fs::read_to_string(golden).unwrap(), rows, "TRANSECT_BLESS=1 writes it anew");
}

/// A number as it is, a truth value as 0 or 1, a text by its length.
fn number(value: &Value) -> i128 {
    match value {
        Value::Bool(truth) => i128::from(*truth),
        Value::String(text) => text.chars().count() as i128,
        number => number
            .as_i64()
            .map(i128::from)
            .or_else(|| number.as_u64().map(i128::from))
            .unwrap_or_else(|| panic!("{number} is no integer")),
    }
}

/// Made once; made again when the recording or the way it is read changes.
#[test]
fn tables_are_made_again_when_they_are_stale() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let is_new = |words: &[&str]| tables(dir.path(), words)["is_new"].as_bool().unwrap();
    assert!(is_new(&[&recording]) && !is_new(&[&recording]));
    assert!(is_new(&[&recording, "--no-tsc-offset"]) && is_new(&[&recording]));
    let clocks = Path::new(&recording).join("clocks.jsonl");
    let longer = fs::read_to_string(&clocks).unwrap() + "\n";
    fs::write(&clocks, longer).unwrap();
    assert!(is_new(&[&recording]) && !is_new(&[&recording]));
}

/// A bare file's tables are in the cache, and leave it with the file.
#[test]
fn a_bare_files_tables_are_in_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    let file = dir.path().join("copy.dat").to_str().unwrap().to_owned();
    fs::copy(testdata("v7-all.dat"), &file).unwrap();
    let made = tables(&cache, &[&file]);
    let path = PathBuf::from(made["path"].as_str().unwrap());
    assert!(path.starts_with(&cache) && path.join("stamp.json").exists());
    assert_eq!(tables(&cache, &[&file])["is_new"], false);
    fs::remove_file(&file).unwrap();
    tables(&cache, &[&testdata("v7-all.dat")]);
    assert!(!path.exists(), "tables of a file that is gone");
}

fn fails_for_want_of_room(cache: &Path, recording: &str) {
    let output = transect(cache, &["tables", recording]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("the file system is full") && error.lines().count() == 1, "{error}");
    assert!(!Path::new(recording).join("tables").exists());
    assert!(!Path::new(recording).join("tables.tmp").exists());
}

/// Tier `make test`: beside DuckDB, and on a file system of its own.
mod host {
    use super::*;

    /// DuckDB reads the same rows: counts, nulls and the sum of every column.
    #[test]
    fn duckdb_reads_the_same() {
        let Some(python) = std::env::var_os("TRANSECT_PYTHON") else {
            println!("skipped: TRANSECT_PYTHON is not set (make test sets it)");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        for recording in recordings(dir.path()) {
            let made = tables(dir.path(), &[&recording]);
            let output = Command::new(&python)
                .arg(root().join("tests/tables/duckdb_check.py"))
                .arg(made["path"].as_str().unwrap())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let seen: BTreeMap<String, Value> = serde_json::from_slice(&output.stdout).unwrap();
            for (table, count) in made["rows"].as_object().unwrap() {
                let rows = seen.get(table).map_or(0, |seen| seen["rows"].as_u64().unwrap());
                assert_eq!(count.as_u64(), Some(rows), "{table} of {recording}");
            }
            for (table, rows) in exported(dir.path(), &recording) {
                let columns = seen[&table]["columns"].as_object().unwrap();
                for (name, column) in columns {
                    let values: Vec<&Value> = rows
                        .iter()
                        .map(|row| &row[name])
                        .filter(|value| !value.is_null())
                        .collect();
                    assert_eq!(
                        column["values"].as_u64(),
                        Some(values.len() as u64),
                        "{table}.{name}"
                    );
                    if !values.is_empty() && column["type"] != "DOUBLE" {
                        let sum: i128 = values.iter().map(|value| number(value)).sum();
                        assert_eq!(column["sum"], sum.to_string(), "{table}.{name} of {recording}");
                    }
                }
            }
        }
    }

    /// A full disk is told in one line; there are no tables then, and the recording is as it was.
    #[test]
    fn a_full_disk_leaves_no_tables() {
        let dir = tempfile::tempdir().unwrap();
        let Some(tiny) = Tiny::mount(dir.path().join("tiny"), "64M") else { return };
        let recording = pair(tiny.path());
        let filler = tiny.path().join("filler");
        let mut full = fs::File::create(&filler).unwrap();
        while full.write_all(&[1; 4096]).is_ok() {}
        let end = full.metadata().unwrap().len();
        for room in [0, 16 << 10, 64 << 10, 128 << 10] {
            full.set_len(end - room).unwrap();
            fails_for_want_of_room(dir.path(), &recording);
        }
        drop(full);
        fs::remove_file(&filler).unwrap();
        assert_eq!(tables(dir.path(), &[&recording])["is_new"], true);
    }
}
