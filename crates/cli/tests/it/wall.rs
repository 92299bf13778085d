//! Wall-clock time beside trace time: moments on the command line, the report, other formats.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use crate::view_support::{Served, made_up, transect};
use serde_json::{Value, json};
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const HOUR: i64 = 3_600_000_000_000;
/// 2026-11-25 02:41:38 UTC.
const UNIX: i64 = 1_795_574_498_000_000_000;

/// Runs it in this zone; standard output.
fn good_in(zone: &str, cache: &Path, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(words).env("XDG_CACHE_HOME", cache).env("TZ", zone).stdin(Stdio::null());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn good(cache: &Path, words: &[&str]) -> String {
    good_in("UTC", cache, words)
}

fn bad(cache: &Path, words: &[&str]) -> (String, Option<i32>) {
    let output = transect(cache, words);
    assert!(!output.status.success(), "{words:?} succeeded");
    (String::from_utf8(output.stderr).unwrap(), output.status.code())
}

fn report(cache: &Path, words: &[&str]) -> Value {
    let text = good(cache, &[&["report", "--json"][..], words].concat());
    serde_json::from_str(&text).unwrap()
}

/// A recording whose wall clock showed 02:41:38 at its start and was set in its middle; its path, and
/// its window.
fn stepped(dir: &Path, step: i64) -> (String, i64, i64) {
    stepped_from(dir, UNIX, step)
}

/// The same with another time at its start.
fn stepped_from(dir: &Path, unix: i64, step: i64) -> (String, i64, i64) {
    let recording = made_up(dir, 20_000);
    let facts = &report(dir, &[&recording, "--view", "recording"])["recording"];
    let at = |name: &str| facts[name].as_i64().unwrap();
    let (start, end) = (at("start_ns"), at("end_ns"));
    let clocks = Path::new(&recording).join("clocks.jsonl");
    let mut clocks = OpenOptions::new().append(true).open(clocks).unwrap();
    // Eleven readings: six before the step, five after it.
    for n in 0..=10 {
        let ts = start + (end - start) * n / 10;
        let unix_ns = unix + (ts - start) + if n > 5 { step } else { 0 };
        let reading = json!({ "evidence": "wall_reading", "machine": 0, "before": ts - 20,
            "unix_ns": unix_ns, "after": ts + 20 });
        writeln!(clocks, "{reading}").unwrap();
    }
    (recording, start, end)
}

/// How long it is without readings.
fn made_up_length() -> i64 {
    let dir = tempfile::tempdir().unwrap();
    let (_, start, end) = stepped(dir.path(), 0);
    end - start
}

fn wall_rows(cache: &Path, recording: &str) -> Vec<Value> {
    let rows = good(cache, &["export", recording, "--to", "jsonl", "-o", "-"]);
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| row["table"] == "wall_clock").collect()
}

/// RFC 3339 of a number of ns after [`UNIX`], in UTC, within the same minute.
fn utc(after: i64) -> String {
    let ns = 38_000_000_000 + after;
    format!("2026-11-25T02:41:{:02}.{:09}Z", ns / 1_000_000_000, ns % 1_000_000_000)
}

#[test]
fn both_sides_of_a_step_are_rows() {
    for step in [-HOUR, HOUR] {
        let dir = tempfile::tempdir().unwrap();
        let (recording, start, end) = stepped(dir.path(), step);
        let rows = wall_rows(dir.path(), &recording);
        let [before, after] = rows.as_slice() else { panic!("{rows:?}") };
        let tenth = (end - start) / 10;
        assert_eq!((&before["ts"], &before["unix_ns"]), (&json!(start), &json!(UNIX)));
        assert!((before["dur"].as_i64().unwrap() - 5 * tenth).abs() <= 30);
        assert_eq!(before["step_ns"], Value::Null);
        assert!((after["step_ns"].as_i64().unwrap() - step).abs() <= 2);
        let ts = after["ts"].as_i64().unwrap();
        assert_eq!(after["unix_ns"].as_i64().unwrap() - UNIX, ts - start + step);
        assert!((ts - (start + 6 * tenth)).abs() <= 30);
        assert!(after["error_ns"].as_i64().unwrap() <= 25);
    }
}

#[test]
fn ranges_in_wall_clock_time_are_those_in_trace_time() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, start, end) = stepped(dir.path(), HOUR);
    let (from, until) = (start + (end - start) / 5, start + (end - start) / 3);
    let rows = |zone: &str, from: &str, until: &str| {
        let range = ["--from", from, "--until", until];
        let words = [&["export", &recording, "--to", "jsonl", "-o", "-"][..], &range].concat();
        good_in(zone, dir.path(), &words)
    };
    let by_trace = rows("UTC", &from.to_string(), &until.to_string());
    assert!(by_trace.lines().count() > 100);
    let after = |ts: i64| ts - start;
    let from_start = rows("UTC", &format!("+{}ns", after(from)), &format!("+{}", after(until)));
    assert_eq!(from_start, by_trace);
    assert_eq!(rows("UTC", &utc(after(from)), &utc(after(until))), by_trace);
    // Local time of a zone an hour ahead, by its name in POSIX's form.
    let local = |ts: i64| utc(ts).replace("T02", " 03").replace('Z', "");
    let zone = "<+01>-1";
    assert_eq!(rows(zone, &local(after(from)), &local(after(until))), by_trace);
    let of_day = |ts: i64| local(ts).split_once(' ').unwrap().1.to_owned();
    assert_eq!(rows(zone, &of_day(after(from)), &of_day(after(until))), by_trace);
}

#[test]
fn a_wall_clock_time_that_is_not_unique_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    // Set back by a third of its length: the time around the fourth tenth exists twice.
    let length = made_up_length();
    let (recording, ..) = stepped(dir.path(), -length / 3);
    let export = |from: &str| {
        bad(dir.path(), &["export", &recording, "--to", "jsonl", "-o", "-", "--from", from])
    };
    let (error, code) = export(&utc(length * 2 / 5));
    assert!(code == Some(1) && error.contains("exists 2 times"), "{error}");
    // Both are moments that can be given instead.
    let moments: Vec<&str> =
        error.split([' ', ',']).filter(|word| word.ends_with('s') && word.contains('.')).collect();
    assert_eq!(moments.len(), 2, "{error}");
    for moment in moments {
        good(dir.path(), &["export", &recording, "--to", "jsonl", "-o", "-", "--from", moment]);
    }
    let (error, code) = export("2026-11-25T02:41:37Z");
    assert!(code == Some(1) && error.contains("whose wall clock shows"), "{error}");
    let (error, code) = export("2026-11-25T02:41");
    assert!(code == Some(1) && error.contains("not in the recording"), "{error}");
    let (error, code) = export("2026-11-25T02:61:00Z");
    assert!(code == Some(2) && error.contains("not a wall-clock time"), "{error}");
}

/// Central Europe in 2026: 02:00 to 03:00 does not exist on 29 March and exists twice on 25 October.
#[test]
fn hours_that_a_zone_skips_or_repeats_are_not_guessed() {
    const ZONE: &str = "CET-1CEST,M3.5.0,M10.5.0/3";
    /// 2026-10-25 00:30:00 UTC, which is 02:30 in summer time.
    const FIRST: i64 = 1_792_888_200_000_000_000;
    let export = |dir: &Path, recording: &str, from: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
        command.args(["export", recording, "--to", "jsonl", "-o", "-", "--from", from]);
        command.env("XDG_CACHE_HOME", dir).env("TZ", ZONE).stdin(Stdio::null());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let dir = tempfile::tempdir().unwrap();
    let (recording, ..) = stepped_from(dir.path(), FIRST, 0);
    let (code, error) = export(dir.path(), &recording, "2026-03-29 02:30:00");
    assert!(code == Some(1) && error.contains("the time zone skips it"), "{error}");
    // Only the first of both is in the recording.
    assert_eq!(export(dir.path(), &recording, "2026-10-25 02:30:00").0, Some(0));
    // Here both are, because the clock was set forward by nearly an hour.
    let dir = tempfile::tempdir().unwrap();
    let (recording, start, end) = stepped_from(dir.path(), FIRST, HOUR - made_up_length() / 2);
    let late = FIRST + (end - start) * 3 / 10;
    let ns = (late - FIRST) % 1_000_000_000;
    let seconds = (late - FIRST) / 1_000_000_000;
    let text = format!("2026-10-25 02:30:{seconds:02}.{ns:09}");
    let (code, error) = export(dir.path(), &recording, &text);
    assert!(code == Some(1) && error.contains("exists 2 times"), "{text}: {error}");
}

#[test]
fn recordings_without_readings_have_no_wall_clock() {
    let dir = tempfile::tempdir().unwrap();
    let recording = made_up(dir.path(), 5_000);
    assert_eq!(wall_rows(dir.path(), &recording), Vec::<Value>::new());
    let words = ["report", &recording, "--from", "02:41:38"];
    let (error, code) = bad(dir.path(), &words);
    assert!(code == Some(1) && error.contains("has no wall-clock time"), "{error}");
}

#[test]
fn the_report_shows_the_wall_clock_and_how_it_was_set() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, start, end) = stepped(dir.path(), -HOUR);
    let facts = &report(dir.path(), &[&recording])["recording"];
    assert_eq!(facts["start_unix_ns"], json!(UNIX));
    assert_eq!(facts["end_unix_ns"], json!(UNIX + (end - start) - HOUR));
    assert!(facts["unix_error_ns"].as_i64().unwrap() <= 25);
    let text = |zone| good_in(zone, dir.path(), &["report", &recording, "--view", "recording"]);
    let utc = text("UTC");
    assert!(utc.lines().next().unwrap().contains("2026-11-25 02:41:38 to"), "{utc}");
    assert!(utc.contains("  wall clock 2026-11-25 02:41:38.000 to"), "{utc}");
    assert!(utc.contains("  wall clock set by −1 h at 2026-11-25 02:41:38."), "{utc}");
    let berlin = text("<+01>-1");
    assert!(berlin.contains("  wall clock 2026-11-25 03:41:38.000 to"), "{berlin}");
    assert!(berlin.contains("+0100 (±"), "{berlin}");
    // The step is not in a range before it.
    let until = start + (end - start) / 5;
    let range = ["--until", &until.to_string(), "--view", "recording"];
    let part = good(dir.path(), &[&["report", &recording][..], &range].concat());
    assert!(part.contains("wall clock") && !part.contains("set by"), "{part}");
    let facts =
        &report(dir.path(), &[&["--json", &recording][..], &range].concat()[1..])["recording"];
    assert_eq!(facts["end_unix_ns"], json!(UNIX + until - start));
}

#[test]
fn an_unknown_wall_clock_is_null() {
    let dir = tempfile::tempdir().unwrap();
    let recording = made_up(dir.path(), 5_000);
    let facts = &report(dir.path(), &[&recording])["recording"];
    for name in ["start_unix_ns", "end_unix_ns", "unix_error_ns"] {
        assert_eq!(facts[name], Value::Null);
    }
    let text = good(dir.path(), &["report", &recording, "--view", "recording"]);
    assert!(text.contains("  wall clock not recorded"), "{text}");
    let imported = crate::view_support::testdata("tracedat/pair-host.dat");
    let text = good(dir.path(), &["report", &imported, "--view", "recording"]);
    assert!(text.contains("  wall clock not in the file"), "{text}");
    let dated = crate::view_support::testdata("tracedat/v7-date.dat");
    let text = good(dir.path(), &["report", &dated, "--view", "log"]);
    assert!(text.contains("DATE option has no error bound"), "{text}");
}

/// The report of a range has the numbers of the report of its excerpt.
#[test]
fn a_report_of_a_range_is_that_of_its_excerpt() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, start, end) = stepped(dir.path(), -HOUR);
    let from = format!("+{}ns", (end - start) * 3 / 10);
    let until = (start + (end - start) * 7 / 10).to_string();
    let range = ["--from", &from, "--until", &until];
    let small = dir.path().join("small.transect").to_str().unwrap().to_owned();
    let words = ["export", &recording, "--to", "recording", "-o", &small];
    good(dir.path(), &[&words[..], &range].concat());
    let mut by_range = report(dir.path(), &[&[recording.as_str()][..], &range].concat());
    let mut of_excerpt = report(dir.path(), &[&small]);
    for report in [&mut by_range, &mut of_excerpt] {
        report["recording"].as_object_mut().unwrap().remove("path");
    }
    assert_eq!(by_range, of_excerpt);
    assert_eq!(by_range["recording"]["excerpt_of"], "made-up.transect");
    // The excerpt still knows the wall clock.
    assert_eq!(wall_rows(dir.path(), &small).len(), 2);
    // Nothing stays behind.
    let scratch = dir.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(["report", &recording]).args(range).env("TMPDIR", &scratch);
    assert!(command.stdin(Stdio::null()).output().unwrap().status.success());
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}

#[test]
fn the_events_of_a_range_are_those_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, start, end) = stepped(dir.path(), HOUR);
    let (from, until) = (start + (end - start) / 4, start + (end - start) / 2);
    let events = |range: &[&str]| {
        let words = ["report", &recording, "--view", "events", "--csv"];
        let text = good(dir.path(), &[&words[..], range].concat());
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let ts = |line: &String| line.split(',').next().unwrap().parse::<i64>().unwrap();
    let expected: Vec<String> =
        events(&[]).into_iter().filter(|line| (from..until).contains(&ts(line))).collect();
    assert!(expected.len() > 100);
    let range = ["--from", &utc(from - start), "--until", &until.to_string()];
    assert_eq!(events(&range), expected);
}

#[test]
fn view_opens_at_the_range() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, start, end) = stepped(dir.path(), HOUR);
    let middle = start + (end - start) / 4;
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(["view", "--api-only", &recording, "--from", &utc(middle - start)]);
    command.env("XDG_CACHE_HOME", dir.path()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(url.trim().ends_with(&format!("#v={middle}-{end}")), "{url}");
}

/// What the timeline's page needs for its axis.
#[test]
fn the_page_has_the_map_to_the_wall_clock() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, ..) = stepped(dir.path(), -HOUR);
    let rows = wall_rows(dir.path(), &recording);
    let served = Served::start(dir.path(), &[&recording]);
    served.ready();
    let wall = served.json("/api/recording")["wall"].clone();
    let text = |row: &Value, name: &str| match &row[name] {
        Value::Null => Value::Null,
        number => json!(number.to_string()),
    };
    let names = ["ts", "dur", "unix_ns", "unix_dur", "error_ns", "step_ns"];
    let expected = rows.iter().map(|row| {
        names.into_iter().map(|name| (name.to_owned(), text(row, name))).collect::<Value>()
    });
    assert_eq!(wall, expected.collect::<Value>());
    assert_eq!(rows.len(), 2);
}

/// A range of SQL has the rows of an excerpt, and its functions know the wall clock of both.
#[test]
fn sql_has_ranges_and_wall_clock_times() {
    let dir = tempfile::tempdir().unwrap();
    let (recording, start, end) = stepped(dir.path(), HOUR);
    let until = start + (end - start) / 4;
    let sql = |range: &[&str], sql: &str| {
        let words = [&["sql", &recording, "--csv"][..], range, &[sql]].concat();
        good(dir.path(), &words).lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let exits = format!("SELECT count(*) AS n FROM exits WHERE ts < {until}");
    let range = ["--until", &utc(until - start)];
    let by_range = sql(&range, "SELECT count(*) AS n FROM exits");
    assert_eq!(by_range, sql(&[], &exits));
    assert_ne!(by_range, sql(&[], "SELECT count(*) AS n FROM exits"));
    let bounds = "SELECT min(ts) AS a, max(ts + dur) AS b FROM cpu_slices";
    assert_eq!(sql(&range, bounds), [format!("{start},{until}")]);
    let both = format!("SELECT ts_of('{}') AS ts, wall({start}) AS wall", utc(until - start));
    for range in [&range[..], &[]] {
        assert_eq!(sql(range, &both), [format!("{until},2026-11-25T02:41:38Z")]);
    }
    // The exit code is the engine's, and nothing stays behind.
    let scratch = dir.path().join("scratch");
    fs::create_dir(&scratch).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(["sql", &recording]).args(range).arg("SELECT nothing").env("TMPDIR", &scratch);
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(&scratch).unwrap().count(), 0);
}
