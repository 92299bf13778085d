//! `report` and `export` over real recordings, whole and broken.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests report by failing"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn testdata(kind: &str) -> PathBuf {
    root().join("testdata").join(kind).join("tracedat")
}

fn xentrace(kind: &str) -> PathBuf {
    root().join("testdata").join(kind).join("xentrace")
}

fn transect(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_transect")).args(words).stdin(Stdio::null()).output().unwrap()
}

/// The recordings of a folder and of those in it, by the end of their names.
fn files_in(folder: &Path, end: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_in(&path, end));
        } else if path.extension().is_some_and(|ext| ext == end) {
            found.push(path.to_str().unwrap().to_owned());
        }
    }
    found.sort();
    found
}

/// Every trace.dat and xentrace file; there must be some of each, or the tests test nothing.
fn recordings(kind: &str) -> Vec<String> {
    let (dats, bins) = (files_in(&testdata(kind), "dat"), files_in(&xentrace(kind), "bin"));
    assert!(dats.len() > 5 && bins.len() > 5, "{dats:?} {bins:?}");
    [dats, bins].concat()
}

/// The host and guest recorded together, as one recording.
fn pair(dir: &Path) -> String {
    let recording = dir.join("pair.transect").to_str().unwrap().to_owned();
    let file = |name: &str| testdata("succeed").join(name).to_str().unwrap().to_owned();
    let (host, guest) = (file("pair-host.dat"), file("pair-guest.dat"));
    let output = transect(&["import", &host, &guest, "-o", &recording]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    recording
}

/// Xen with the kernels of dom0 and two domUs, as one recording.
fn xen_and_kernels(dir: &Path) -> String {
    let recording = dir.join("xen-kernels.transect").to_str().unwrap().to_owned();
    let folder = root().join("testdata/succeed/xen-kernels");
    let file = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let named = |domid: u32, name: &str| format!("{domid}={}", file(name));
    let files = [file("xen.bin"), named(0, "dom0.txt"), named(1, "hog.txt"), named(2, "duty.txt")];
    let mut words = vec!["import", "--cpu-hz", "2596139000", "-o", &recording];
    words.extend(files.iter().map(String::as_str));
    let output = transect(&words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    recording
}

fn json_report(recording: &str) -> Value {
    let output = transect(&["report", recording, "--json"]);
    assert!(output.status.success(), "{recording}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn rows(recording: &str) -> Vec<Value> {
    let output = transect(&["export", recording, "--to", "jsonl", "-o", "-"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn sum(value: &Value, columns: &[&str]) -> i64 {
    columns.iter().map(|column| value[column].as_i64().unwrap()).sum()
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value[name].as_array().unwrap()
}

#[test]
fn in_every_recording_the_parts_add_up_to_the_window() {
    let scratch = tempfile::tempdir().unwrap();
    let mut recordings = recordings("succeed");
    recordings.extend([pair(scratch.path()), xen_and_kernels(scratch.path())]);
    let mut vcpus = 0;
    for recording in recordings {
        let report = json_report(&recording);
        let window = report["recording"]["dur_ns"].as_i64().unwrap();
        for line in list(&report, "vcpus") {
            vcpus += 1;
            let parts = ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "unknown_ns"];
            assert_eq!(sum(line, &parts), window, "{recording}: {line}");
            let gotten = [
                "guest_ns",
                "exit_ns",
                "user_ns",
                "halt_poll_ns",
                "running_ns",
                "hypercall_ns",
                "trap_ns",
            ];
            assert_eq!(sum(line, &gotten), line["gotten_ns"], "{recording}: {line}");
        }
        for line in list(&report, "cpus") {
            let parts = ["vcpu_ns", "thread_ns", "idle_ns", "unknown_ns"];
            assert_eq!(sum(line, &parts), line["window_ns"], "{recording}: {line}");
        }
        for line in list(&report, "threads").iter().filter(|l| !l["vcpu_preempted_ns"].is_null()) {
            let parts = [
                "effective_running_ns",
                "vcpu_preempted_ns",
                "exit_handling_ns",
                "vcpu_halted_ns",
                "effective_unknown_ns",
            ];
            assert_eq!(sum(line, &parts), line["running_ns"], "{recording}: {line}");
        }
    }
    assert!(vcpus >= 4, "only {vcpus} vCPUs were looked at");
}

#[test]
fn the_report_counts_what_the_rows_say() {
    let scratch = tempfile::tempdir().unwrap();
    let recording = pair(scratch.path());
    let (report, rows) = (json_report(&recording), rows(&recording));
    let of =
        |table: &str| rows.iter().filter(move |row| row["table"] == *table).collect::<Vec<_>>();
    let exits = of("exits");
    assert!(!exits.is_empty());
    for line in list(&report, "exits") {
        let same = exits.iter().filter(|row| row["reason"] == line["reason"]);
        assert_eq!(line["count"], same.count());
    }
    let counted: i64 = list(&report, "exits").iter().map(|l| l["count"].as_i64().unwrap()).sum();
    assert_eq!(counted, i64::try_from(exits.len()).unwrap());
    for line in list(&report, "vcpus") {
        let windows = of("windows").into_iter().filter(|row| row["vcpu"] == line["vcpu"]);
        let gotten: i64 = windows.map(|row| row["gotten_ns"].as_i64().unwrap()).sum();
        assert_eq!(line["gotten_ns"], gotten, "windows add up to the whole: {line}");
        let waits = list(&report, "antagonists").iter().filter(|l| l["vcpu"] == line["vcpu"]);
        let waited: i64 = waits.map(|l| l["waited_ns"].as_i64().unwrap()).sum();
        assert_eq!(line["waited_ns"], waited, "every wait has its antagonist: {line}");
    }
}

#[test]
fn csv_has_the_numbers_of_json() {
    let scratch = tempfile::tempdir().unwrap();
    let recording = pair(scratch.path());
    let report = json_report(&recording);
    for view in ["exits", "vcpus", "antagonists", "windows"] {
        let output = transect(&["report", &recording, "--view", view, "--csv"]);
        let csv = String::from_utf8(output.stdout).unwrap();
        let mut lines = csv.lines();
        let header: Vec<&str> = lines.next().unwrap().split(',').collect();
        let mut compared = 0;
        for (line, json) in lines.zip(list(&report, view)) {
            for (column, value) in header.iter().zip(line.split(',')) {
                // In JSON the unit is of the report, not of each row.
                let of = if *column == "time_unit" { &report } else { json };
                let wanted = match &of[column] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                assert_eq!(value, wanted, "{view}.{column}");
                compared += 1;
            }
        }
        assert!(compared > 0, "{view}");
    }
}

/// A report of something broken is a report or one line that says why not: never a panic.
fn assert_survives(recording: &str) {
    let output = transect(&["report", recording]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("panicked"), "{recording}: {error}");
    match output.status.code() {
        Some(0) => assert!(error.is_empty(), "{recording}: {error}"),
        Some(1) => assert_eq!(error.lines().count(), 1, "{recording}: {error}"),
        other => panic!("{recording} ends with {other:?}: {error}"),
    }
}

#[test]
fn broken_files_are_reported_or_refused() {
    recordings("fail").iter().for_each(|recording| assert_survives(recording));
}

#[test]
fn a_recording_cut_anywhere_is_reported_or_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let cut = scratch.path().join("cut");
    for file in [testdata("succeed").join("pair-host.dat"), xentrace("succeed").join("pvh.bin")] {
        let whole = std::fs::read(file).unwrap();
        for part in 0..50 {
            std::fs::write(&cut, &whole[..whole.len() * part / 50]).unwrap();
            assert_survives(cut.to_str().unwrap());
        }
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let scratch = tempfile::tempdir().unwrap();
    let recording = pair(scratch.path());
    let commands: [&[&str]; 4] = [
        &["report", &recording],
        &["report", &recording, "--json"],
        &["export", &recording, "--to", "jsonl", "-o", "-"],
        &["export", &recording, "--to", "perfetto", "-o", "-"],
    ];
    for words in commands {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{words:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
    }
}

#[test]
fn a_senseless_command_line_exits_2_and_a_missing_recording_1() {
    assert_eq!(transect(&["report", "x", "--csv"]).status.code(), Some(2));
    assert_eq!(transect(&["report", "x", "--view", "nonsense"]).status.code(), Some(2));
    assert_eq!(transect(&["report", "x", "--json", "--csv"]).status.code(), Some(2));
    let missing = transect(&["report", "no-such.transect"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("no such recording"));
}

#[test]
fn an_export_that_fails_leaves_no_file() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("out.pftrace");
    let broken = testdata("fail").join("not-a-trace.dat");
    let words = ["export", broken.to_str().unwrap(), "--to", "perfetto", "-o"];
    let output = transect(&[&words[..], &[out.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0);
}

/// Tier `make test`: beside Perfetto's own schema.
mod host {
    use super::*;

    #[test]
    fn the_timeline_of_every_recording_keeps_to_schema_and_tables() {
        let Some(python) = std::env::var_os("TRANSECT_PYTHON") else {
            println!("skipped: TRANSECT_PYTHON is not set (make test sets it)");
            return;
        };
        let scratch = tempfile::tempdir().unwrap();
        let mut recordings = recordings("succeed");
        recordings.extend([pair(scratch.path()), xen_and_kernels(scratch.path())]);
        for recording in recordings {
            let file = |name: &str| scratch.path().join(name).to_str().unwrap().to_owned();
            let (trace, lines) = (file("t.pftrace"), file("t.jsonl"));
            for (format, path) in [("perfetto", &trace), ("jsonl", &lines)] {
                let output = transect(&["export", &recording, "--to", format, "-o", path]);
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
            let check = root().join("tests/perfetto/check.py");
            let output = Command::new(&python).arg(check).args([&trace, &lines]).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            let erred = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{recording}: {said}{erred}");
        }
    }
}
