//! `transect sql` as its users run it: on recordings, in pipes, with mistakes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use serde_json::Value;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/tracedat").join(name)
}

/// The program with a cache of its own, which is where the tables of bare files go.
fn transect(cache: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.env("XDG_CACHE_HOME", cache).env("XDG_STATE_HOME", cache);
    command
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn ok(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

fn sql(cache: &Path, file: &str, args: &[&str]) -> Output {
    run(transect(cache).arg("sql").arg(recording(file)).args(args))
}

/// The host and guest recorded together, as one recording.
fn pair(dir: &Path) -> PathBuf {
    let pair = dir.join("pair.transect");
    let files = [recording("pair-host.dat"), recording("pair-guest.dat")];
    ok(run(transect(dir).arg("import").args(files).arg("-o").arg(&pair)));
    pair
}

/// The one line it says, and its exit code.
fn refused(output: Output) -> (String, i32) {
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    (said, output.status.code().unwrap())
}

#[test]
fn views_say_what_the_report_says() {
    let cache = tempfile::tempdir().unwrap();
    let pair = pair(cache.path());
    let report = ok(run(transect(cache.path()).arg("report").arg("--json").arg(&pair)));
    let report: Value = serde_json::from_str(&report).unwrap();
    let ask = |view: &str| -> Vec<Value> {
        let mut command = transect(cache.path());
        command.arg("sql").arg(&pair).args(["--json", &format!("SELECT * FROM {view}")]);
        let text = ok(run(&mut command));
        serde_json::from_str(&text).unwrap()
    };
    let same = |ours: &[Value], theirs: &str, key: &[&str], columns: &[&str]| {
        let theirs = report[theirs].as_array().unwrap();
        assert!(!theirs.is_empty());
        assert_eq!(ours.len(), theirs.len());
        for row in theirs {
            let matches = |o: &&Value| key.iter().all(|k| o[k] == row[k]);
            let own = ours.iter().find(matches).unwrap_or_else(|| panic!("{row} is missing"));
            for column in columns {
                assert_eq!(own[column], row[column], "{column} of {row}");
            }
        }
    };
    same(
        &ask("exit_latency"),
        "exits",
        &["machine_id", "reason"],
        &[
            "count",
            "to_user",
            "unfinished",
            "total_ns",
            "p50_ns",
            "p90_ns",
            "p99_ns",
            "max_ns",
            "handling_total_ns",
            "handling_p50_ns",
            "handling_p99_ns",
            "handling_max_ns",
        ],
    );
    same(
        &ask("vcpu_time"),
        "vcpus",
        &["machine_id", "vcpu"],
        &[
            "window_ns",
            "guest_ns",
            "exit_ns",
            "user_ns",
            "halt_poll_ns",
            "preempted_ns",
            "waking_ns",
            "halted_ns",
            "offline_ns",
            "unknown_ns",
        ],
    );
    same(
        &ask("runqueue_latency"),
        "wakeups",
        &["machine_id", "tid"],
        &["name", "count", "unfinished", "total_ns", "p50_ns", "p99_ns", "max_ns"],
    );
    same(
        &ask("cpu_time"),
        "cpus",
        &["machine_id", "cpu"],
        &["window_ns", "vcpu_ns", "thread_ns", "idle_ns", "unknown_ns", "slices"],
    );
}

#[test]
fn every_format_holds_the_same_rows() {
    let cache = tempfile::tempdir().unwrap();
    let out = |name: &str| cache.path().join(name).display().to_string();
    let query = "SELECT ts, tid, state FROM thread_states ORDER BY ts, tid LIMIT 50";
    let csv = ok(sql(cache.path(), "v7-all.dat", &["--csv", query]));
    assert_eq!(csv.lines().count(), 51);
    let jsonl = ok(sql(cache.path(), "v7-all.dat", &["--jsonl", query]));
    let json = ok(sql(cache.path(), "v7-all.dat", &["--json", query]));
    let rows: Vec<Value> = serde_json::from_str(&json).unwrap();
    let lines: Vec<Value> = jsonl.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(rows, lines);
    let from_csv = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
    for (row, line) in rows.iter().zip(csv.lines().skip(1)) {
        let cells = from_csv(line);
        assert_eq!(row["ts"].to_string(), cells[0]);
        assert_eq!(row["state"].as_str().unwrap(), cells[2]);
    }
    ok(sql(cache.path(), "v7-all.dat", &["-o", &out("rows.csv"), query]));
    assert_eq!(std::fs::read_to_string(out("rows.csv")).unwrap(), csv);
    ok(sql(cache.path(), "v7-all.dat", &["--parquet", &out("rows.parquet"), query]));
    ok(sql(cache.path(), "v7-all.dat", &["--arrow", &out("rows.arrow"), query]));
    assert!(std::fs::read(out("rows.parquet")).unwrap().starts_with(b"PAR1"));
    assert!(std::fs::read(out("rows.arrow")).unwrap().starts_with(b"ARROW1"));
}

#[test]
fn events_are_there_once_each_whole_and_by_name() {
    let cache = tempfile::tempdir().unwrap();
    let count = |sql_text: &str| -> usize {
        let csv = ok(sql(cache.path(), "pair-host.dat", &["--csv", sql_text]));
        csv.lines().nth(1).unwrap().parse().unwrap()
    };
    let exits = count("SELECT count(*) AS n FROM exits");
    assert!(exits > 0);
    assert_eq!(count("SELECT count(*) AS n FROM ev_kvm_exit"), exits);
    assert_eq!(count("SELECT count(*) AS n FROM events WHERE name = 'kvm_exit'"), exits);
    let with_args = "SELECT count(*) AS n FROM events WHERE name = 'kvm_exit' AND args LIKE '%=%'";
    assert_eq!(count(with_args), exits);
}

#[test]
fn mistakes_are_told_in_one_line() {
    let cache = tempfile::tempdir().unwrap();
    let (said, code) = refused(sql(cache.path(), "v7-all.dat", &["SELECT * FROM exit"]));
    assert_eq!(code, 2);
    assert!(said.contains("column 15") && said.contains("did you mean exits?"), "{said}");
    let (said, code) = refused(sql(cache.path(), "v7-all.dat", &["SELECT durr FROM exits"]));
    assert_eq!(code, 2);
    assert!(said.contains("did you mean dur?"), "{said}");
    let (said, code) = refused(sql(cache.path(), "no-such.dat", &["SELECT 1"]));
    assert_eq!(code, 1);
    assert!(said.contains("no-such.dat"), "{said}");
    let (said, code) = refused(sql(cache.path(), "v7-all.dat", &["-o", "rows.xyz", "SELECT 1"]));
    assert_eq!(code, 2);
    assert!(said.contains(".parquet"), "{said}");
    let output = cache.path().join("never.csv").display().to_string();
    refused(sql(cache.path(), "v7-all.dat", &["-o", &output, "SELECT durr FROM exits"]));
    assert!(!Path::new(&output).exists(), "a failed query leaves no file");
}

#[test]
fn sql_comes_from_standard_input_too_and_a_closed_pipe_is_no_error() {
    let cache = tempfile::tempdir().unwrap();
    let mut child = transect(cache.path())
        .arg("sql")
        .arg(recording("v7-all.dat"))
        .arg("--csv")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"SELECT 1 AS a; -- two\nSELECT 2 AS b;").unwrap();
    assert_eq!(ok(child.wait_with_output().unwrap()), "a\n1\nb\n2\n");
    let mut child = transect(cache.path())
        .arg("sql")
        .arg(recording("v7-all.dat"))
        .args(["--csv", "SELECT a.* FROM thread_states AS a, thread_states AS b"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && said.is_empty(), "{:?} {said}", output.status);
}

#[test]
fn without_the_engine_sql_says_what_is_missing_and_makes_nothing() {
    let cache = tempfile::tempdir().unwrap();
    let (_dir, alone) = crate::view_support::alone();
    let transect = |words: &[&str]| {
        let mut command = Command::new(&alone);
        command.env("XDG_CACHE_HOME", cache.path()).env("XDG_STATE_HOME", cache.path());
        run(command.args(words).arg(recording("v7-all.dat")))
    };
    for words in [&["sql"][..], &["sql", "--csv"], &["sql", "--schema"]] {
        let (said, code) = refused(transect(words));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("transect-sql") && said.contains("make build"), "{said}");
    }
    assert!(cache.path().read_dir().unwrap().next().is_none(), "no tables were made");
    ok(transect(&["report"]));
}

#[test]
fn describing_tables_needs_no_recording() {
    let cache = tempfile::tempdir().unwrap();
    let schema = ok(run(transect(cache.path()).args(["sql", "--schema"])));
    assert!(schema.contains("vcpu_states") && schema.contains("by_tid"));
    let views = ok(run(transect(cache.path()).args(["sql", "--views"])));
    assert!(views.contains("antagonists") && views.contains("example:"));
}
