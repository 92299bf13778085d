//! Smaller recordings: what SQL says of an excerpt is what it says of that part of the whole, every
//! verb reads it, and what is broken is told.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests report by failing"
)]

use crate::record_support::Tiny;
use crate::view_support::{Served, made_up, pair, testdata, transect};
use serde_json::{Value, json};
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};
use transect_model::table::{TABLES, TableDoc};

/// Runs it, and what it printed.
fn good(cache: &Path, words: &[&str]) -> String {
    let output = transect(cache, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it in vain: its one line, and its exit code.
fn bad(cache: &Path, words: &[&str]) -> (String, i32) {
    let Output { status, stderr, .. } = transect(cache, words);
    let error = String::from_utf8(stderr).unwrap();
    assert!(!status.success(), "{words:?} went well");
    (error, status.code().expect("an exit code and no signal"))
}

fn path_in(dir: &Path, name: &str) -> String {
    dir.join(name).to_str().unwrap().to_owned()
}

fn excerpt(dir: &Path, of: &str, name: &str, range: (i64, i64)) -> String {
    let path = path_in(dir, name);
    let (from, until) = (range.0.to_string(), range.1.to_string());
    let words =
        ["export", of, "--to", "recording", "--from", &from, "--until", &until, "-o", &path];
    good(dir, &words);
    path
}

/// The window as the report tells it.
fn window(dir: &Path, recording: &str) -> (i64, i64) {
    let report: Value =
        serde_json::from_str(&good(dir, &["report", recording, "--json", "--view", "recording"]))
            .unwrap();
    let at = |name: &str| report["recording"][name].as_i64().unwrap();
    (at("start_ns"), at("end_ns"))
}

/// A part out of the middle, with edges that no event has to lie on.
fn middle(dir: &Path, recording: &str) -> (i64, i64) {
    let (start, end) = window(dir, recording);
    (start + (end - start) / 3 + 1, start + (end - start) / 2 + 7)
}

/// All rows of a question, as lines in order.
fn rows(served: &Served, sql: &str) -> Vec<String> {
    let rows = served.many(sql, 200_000);
    let mut lines: Vec<String> = rows.iter().map(ToString::to_string).collect();
    lines.sort();
    lines
}

fn columns(table: &TableDoc, but: &[&str]) -> String {
    let names = table.columns.iter().map(|column| column.name);
    names.filter(|name| !but.contains(name)).map(|name| format!(", {name}")).collect()
}

/// What an excerpt of [from, until) has of a table, asked of the whole recording.
fn of_whole(table: &TableDoc, (from, until): (i64, i64)) -> String {
    let has = |name| table.columns.iter().any(|column| column.name == name);
    let all = |but| columns(table, but);
    let moment = format!("ts >= {from} AND ts < {until}");
    match table.name {
        "cpu_slices" | "vcpu_states" | "thread_states" | "domain_states" => format!(
            "SELECT greatest(ts, {from}) AS ts, least(ts + dur, {until}) - greatest(ts, {from}) AS dur\
             {} FROM {} WHERE ts < {until} AND ts + dur > {from}",
            all(&["ts", "dur"]),
            table.name
        ),
        "counters" => {
            let rest = all(&["ts"]);
            format!(
                "SELECT ts{rest} FROM counters WHERE {moment} UNION ALL \
                 SELECT CAST({from} AS BIGINT) AS ts{rest} FROM (SELECT *, row_number() OVER \
                 (PARTITION BY machine_id, vcpu, cpu, device, name ORDER BY ts DESC) AS nth \
                 FROM counters WHERE ts <= {from}) WHERE nth = 1 AND ts < {from}"
            )
        }
        name if has("dur") => format!(
            "SELECT * FROM {name} WHERE CASE WHEN dur > 0 \
             THEN ts < {until} AND ts + dur > {from} ELSE {moment} END"
        ),
        name if has("ts") => format!("SELECT * FROM {name} WHERE {moment}"),
        name => format!("SELECT * FROM {name}"),
    }
}

/// Both are asked the same; how many rows were compared.
fn compare(whole: &Served, part: &Served, range: (i64, i64)) -> usize {
    let mut compared = 0;
    for table in TABLES.iter().filter(|table| table.name != "windows") {
        let found = rows(part, &format!("SELECT * FROM {}", table.name));
        assert_eq!(rows(whole, &of_whole(table, range)), found, "{}", table.name);
        compared += found.len();
    }
    let (from, until) = range;
    let events = rows(part, "SELECT * FROM events");
    let moment = format!("SELECT * FROM events WHERE ts >= {from} AND ts < {until}");
    assert_eq!(rows(whole, &moment), events);
    compared + events.len()
}

/// The windows of a range add up to what the states and exits of the range are.
fn check_windows(whole: &Served, part: &Served, (from, until): (i64, i64)) {
    let sums = "sum(dur) AS dur, sum(gotten_ns) AS gotten, sum(waited_ns) AS waited, \
                sum(blocked_ns) AS blocked, sum(offline_ns) AS offline, sum(unknown_ns) AS unknown, \
                sum(guest_ns) AS guest, sum(exits) AS exits, min(ts) AS first, max(ts + dur) AS last";
    let windows = part.sql(&format!(
        "SELECT machine_id, vcpu, {sums} FROM windows WHERE vcpu IS NOT NULL \
         GROUP BY machine_id, vcpu ORDER BY machine_id, vcpu"
    ));
    let of = |states: &[&str]| {
        let states: Vec<_> = states.iter().map(|state| format!("'{state}'")).collect();
        let ns = format!("least(ts + dur, {until}) - greatest(ts, {from})");
        format!("sum(CASE WHEN state IN ({}) THEN {ns} ELSE 0 END)", states.join(", "))
    };
    let gotten = of(&["guest", "exit", "user", "halt_poll", "running", "hypercall", "trap"]);
    let states = whole.sql(&format!(
        "SELECT machine_id, vcpu, {gotten} AS gotten, {} AS waited, {} AS blocked, {} AS offline, \
         {} AS unknown, {} AS guest FROM vcpu_states WHERE ts < {until} AND ts + dur > {from} \
         GROUP BY machine_id, vcpu ORDER BY machine_id, vcpu",
        of(&["preempted", "waking"]),
        of(&["halted", "blocked"]),
        of(&["offline"]),
        of(&["unknown"]),
        of(&["guest"]),
    ));
    assert_eq!(windows.len(), states.len());
    for (window, state) in windows.iter().zip(&states) {
        let parts =
            ["machine_id", "vcpu", "gotten", "waited", "blocked", "offline", "unknown", "guest"];
        for name in parts {
            assert_eq!(window[name], state[name], "{name}: {window} {state}");
        }
        assert_eq!((&window["first"], &window["last"]), (&json!(from), &json!(until)));
        let sql = format!(
            "SELECT count(*) AS n FROM exits WHERE ts >= {from} AND ts < {until} \
             AND machine_id = {} AND vcpu = {}",
            window["machine_id"], window["vcpu"]
        );
        assert_eq!(whole.sql(&sql)[0]["n"], window["exits"], "{window}");
    }
}

/// Everything that a recording can be: host and guest, a compact file, Xen, lost events.
fn recordings(dir: &Path) -> Vec<String> {
    let bare = ["tracedat/lost-slow.dat", "xentrace/live/cap.bin", "xentrace/lost.bin"];
    let mut all = vec![pair(dir), made_up(dir, 40_000)];
    all.extend(bare.map(testdata));
    all
}

#[test]
fn sql_says_of_an_excerpt_what_it_says_of_that_part() {
    let dir = tempfile::tempdir().unwrap();
    for (at, recording) in recordings(dir.path()).iter().enumerate() {
        let range = middle(dir.path(), recording);
        let part = excerpt(dir.path(), recording, &format!("{at}.transect"), range);
        assert_eq!(window(dir.path(), &part), range, "{recording}");
        let [whole, part] = [recording, &part].map(|path| Served::start(dir.path(), &[path]));
        whole.ready();
        part.ready();
        let compared = compare(&whole, &part, range);
        assert!(compared > 10, "{recording}: {compared} rows");
        check_windows(&whole, &part, range);
        drop(part);
        // Up to the middle, and from there on.
        let (start, end) = window(dir.path(), recording);
        let middle = range.0;
        for (more, range) in [("--until", (start, middle)), ("--from", (middle, end))] {
            let part = path_in(dir.path(), &format!("{at}{more}.transect"));
            let words = ["export", recording, "--to", "recording", more, &middle.to_string()];
            good(dir.path(), &[&words[..], &["-o", &part]].concat());
            assert_eq!(window(dir.path(), &part), range, "{recording}");
            let part = Served::start(dir.path(), &[&part]);
            part.ready();
            check_windows(&whole, &part, range);
        }
    }
}

/// An excerpt of an excerpt is an excerpt of the whole, but for windows, which nothing tells anew.
#[test]
fn an_excerpt_of_an_excerpt() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let outer = middle(dir.path(), &recording);
    let inner = (outer.0 + 1_000_000, outer.1 - 2_000_000);
    let first = excerpt(dir.path(), &recording, "first.transect", outer);
    let second = excerpt(dir.path(), &first, "second.transect", inner);
    let [whole, part] = [&recording, &second].map(|path| Served::start(dir.path(), &[path]));
    whole.ready();
    part.ready();
    assert!(compare(&whole, &part, inner) > 50);
    let about = part.json("/api/recording");
    let said = about["problems"].to_string();
    assert!(said.contains("excerpt of pair.transect, from") && said.contains("windows"), "{said}");
    let text = good(dir.path(), &["report", &second]);
    let title = text.lines().next().unwrap();
    let range = format!("excerpt of pair.transect, from {} until {} ticks", inner.0, inner.1);
    assert!(title.contains(&range), "{title}");
}

/// What differs in a report of an excerpt of everything.
fn is_its_own(line: &str) -> bool {
    ["  excerpt ", "  stored "].iter().any(|start| line.starts_with(start))
}

#[test]
fn the_report_of_an_excerpt_of_everything_is_the_wholes() {
    let dir = tempfile::tempdir().unwrap();
    for (at, recording) in recordings(dir.path()).iter().enumerate() {
        let part = path_in(dir.path(), &format!("{at}.transect"));
        let (start, end) = window(dir.path(), recording);
        let range = [(start - 1).to_string(), (end + 1).to_string()];
        // Without a range, and with one that is larger.
        let ranges = [vec![], vec!["--from", &range[0], "--until", &range[1]]];
        for more in ranges {
            let words = ["export", recording, "--to", "recording", "-o", &part];
            good(dir.path(), &[&words[..], &more[..]].concat());
            let [whole, small] = [recording, &part].map(|path| {
                let text = good(dir.path(), &["report", path, "--top", "50"]);
                let lines = text.lines().skip(1).filter(|line| !is_its_own(line));
                lines.map(str::to_owned).collect::<Vec<_>>()
            });
            let other = whole.iter().zip(&small).find(|(whole, small)| whole != small);
            assert_eq!(other, None, "{recording}");
            assert_eq!(whole.len(), small.len(), "{recording}");
            fs::remove_dir_all(&part).unwrap();
        }
    }
}

#[test]
fn every_verb_reads_it_and_says_what_it_does_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let range = middle(dir.path(), &recording);
    let part = excerpt(dir.path(), &recording, "part.transect", range);
    let tables: Value =
        serde_json::from_str(&good(dir.path(), &["tables", "--json", &part])).unwrap();
    assert_eq!(tables["is_new"], false);
    let lines = good(dir.path(), &["export", &part, "--to", "jsonl", "-o", "-"]);
    let counted = tables["rows"].as_object().unwrap();
    let counted = counted.iter().filter(|(name, _)| !name.starts_with("events/"));
    let counted: u64 = counted.map(|(_, rows)| rows.as_u64().unwrap()).sum();
    assert_eq!(lines.lines().count() as u64, counted);
    let trace = path_in(dir.path(), "part.pftrace");
    assert!(
        good(dir.path(), &["export", &part, "--to", "perfetto", "-o", &trace]).contains("slices")
    );
    let report: Value =
        serde_json::from_str(&good(dir.path(), &["report", &part, "--json"])).unwrap();
    assert_eq!(report["recording"]["excerpt_of"], "pair.transect");
    assert!(report["recording"]["source_bytes"].is_null());
    assert!(report["recording"]["events"].as_u64().unwrap() > 100);
    assert!(
        report["vcpus"].as_array().unwrap().iter().all(|v| v["window_ns"] == range.1 - range.0)
    );
    for words in [
        &["report", &part, "--window", "10ms"][..],
        &["report", &part, "--view", "events"],
        &["report", &part, "--tsc-hz", "1000"],
        &["sql", &part, "--no-tsc-offset", "SELECT 1"],
    ] {
        let (error, code) = bad(dir.path(), words);
        assert!(code == 1 && error.lines().count() == 1 && error.contains("excerpt"), "{error}");
    }
}

/// The rows of a range in other formats are those that meet it, whole, as the whole's export has them.
#[test]
fn other_formats_have_ranges_too() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let (from, until) = middle(dir.path(), &recording);
    let all = good(dir.path(), &["export", &recording, "--to", "jsonl", "-o", "-"]);
    let meets = |line: &&str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let Some(ts) = row["ts"].as_i64() else { return true };
        match row["dur"].as_i64() {
            Some(dur) if dur > 0 => ts < until && ts + dur > from,
            _ => from <= ts && ts < until,
        }
    };
    let mut expected: Vec<&str> = all.lines().filter(meets).collect();
    let (from, until) = (from.to_string(), until.to_string());
    let range = ["--from", &from, "--until", &until, "-o", "-"];
    let part =
        good(dir.path(), &[&["export", &recording, "--to", "jsonl"][..], &range[..]].concat());
    let mut part: Vec<&str> = part.lines().collect();
    expected.sort_unstable();
    part.sort_unstable();
    assert!(part.len() > 100 && part.len() < all.lines().count() / 2);
    assert_eq!(part, expected);
}

#[test]
fn ranges_that_make_no_sense_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let recording = made_up(dir.path(), 5_000);
    let (start, end) = window(dir.path(), &recording);
    let small = path_in(dir.path(), "small.transect");
    let export = |more: &[&str]| {
        let words = ["export", &recording, "--to", "recording", "-o", &small];
        bad(dir.path(), &[&words[..], more].concat())
    };
    let (error, code) = export(&["--from", "2s", "--until", "1s"]);
    assert!(code == 1 && error.contains("the range is empty"), "{error}");
    for beyond in [["--from", &end.to_string()], ["--until", &start.to_string()]] {
        let (error, code) = export(&beyond);
        assert!(code == 1 && error.contains("no data in the range"), "{error}");
    }
    let (error, code) = export(&["--from", "5 parsecs"]);
    assert!(code == 2 && error.contains("unknown unit"), "{error}");
    assert!(!Path::new(&small).exists());
    let (error, _) = bad(
        dir.path(),
        &["export", &pair(dir.path()), "--to", "recording", "--from", "1s", "-o", &small],
    );
    assert!(error.contains("ticks"), "{error}");
    fs::create_dir(&small).unwrap();
    fs::write(Path::new(&small).join("mine"), "").unwrap();
    let (error, code) = export(&[]);
    assert!(code == 1 && error.contains("is not empty"), "{error}");
    assert_eq!(fs::read_dir(&small).unwrap().count(), 1);
}

#[test]
fn what_is_broken_is_told_by_every_verb() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let range = middle(dir.path(), &recording);
    let part = excerpt(dir.path(), &recording, "part.transect", range);
    let inside = |name: &str| Path::new(&part).join(name);
    let tell = |says: &str| {
        let other = path_in(dir.path(), "other");
        for words in [
            &["report", &part][..],
            &["sql", &part, "SELECT count(*) FROM exits"],
            &["tables", &part],
            &["export", &part, "--to", "jsonl", "-o", &other],
            &["export", &part, "--to", "recording", "-o", &other],
        ] {
            let (error, code) = bad(dir.path(), words);
            assert!(code == 1 && error.lines().count() == 1, "{words:?}: {error}");
            assert!(error.contains(says), "{words:?}: {error}");
            assert!(!Path::new(&other).exists(), "{words:?}");
        }
        let served = Served::start(dir.path(), &[&part]);
        let building = served.wait_until_over();
        assert_eq!(building["state"], "failed");
        assert!(building["error"].as_str().unwrap().contains(says), "{building}");
    };
    let file = inside("tables/exits/machine_id=1/bucket=0.parquet");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    tell("exits/machine_id=1/bucket=0.parquet: the file has");
    fs::remove_file(&file).unwrap();
    tell("exits/machine_id=1/bucket=0.parquet: the file is missing");
    fs::write(&file, &bytes).unwrap();
    let manifest = fs::read_to_string(inside("manifest.json")).unwrap();
    let lie = |from: &str, to: &str| {
        let lie = manifest.replace(from, to);
        assert_ne!(lie, manifest);
        // Who wrote it did so with the right checksum.
        let content = lie.rsplit_once(",\n  \"checksum\"").unwrap().0;
        let lie = transect_integrity::seal(&format!("{content}\n}}"));
        fs::write(inside("manifest.json"), lie).unwrap();
    };
    let until = format!("\"until\": {}", range.1);
    lie(&until, &format!("\"until\": {}", range.1 + 1));
    tell("these are not the tables of");
    lie(&until, &format!("\"until\": {}", range.0 - 1));
    tell("the excerpt ends at");
    lie("\"unit\": \"ticks\"", "\"unit\": \"weeks\"");
    tell("ns or ticks");
    let whole = fs::read_to_string(Path::new(&recording).join("manifest.json")).unwrap();
    let sources: Value = serde_json::from_str(&whole).unwrap();
    lie("\"sources\": []", &format!("\"sources\": {}", sources["sources"]));
    tell("an excerpt has no sources");
    fs::write(inside("manifest.json"), &manifest).unwrap();
    fs::remove_dir_all(inside("tables")).unwrap();
    tell("stamp.json is missing");
}

/// What can be read is exported, and what cannot is in the excerpt's log.
#[test]
fn a_recording_with_a_broken_source_is_cut_too() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let guest = Path::new(&recording).join("guest-pair-guest.dat");
    let bytes = fs::read(&guest).unwrap();
    fs::write(&guest, [&bytes[..40], &[7; 4000]].concat()).unwrap();
    let range = middle(dir.path(), &recording);
    let part = excerpt(dir.path(), &recording, "part.transect", range);
    assert!(good(dir.path(), &["report", &part, "--view", "log"]).contains("source skipped"));
    for path in [&recording, &part] {
        let served = Served::start(dir.path(), &[path]);
        served.ready();
        let problems = served.json("/api/recording")["problems"].to_string();
        assert!(problems.contains("source skipped"), "{problems}");
    }
}

fn untar(tar: &Path, into: &Path) {
    let output = Command::new("tar").arg("xf").arg(tar).arg("-C").arg(into).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the page downloads, and what `-o NAME.tar` and `-o -` write, is a tar of a recording.
#[test]
fn a_tar_is_a_recording_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let (from, until) = middle(dir.path(), &recording);
    let part = excerpt(dir.path(), &recording, "part.transect", (from, until));
    let expected = good(dir.path(), &["export", &part, "--to", "jsonl", "-o", "-"]);
    let served = Served::start(dir.path(), &[&recording]);
    served.ready();
    let wish = json!({ "from": from.to_string(), "to": until.to_string(), "format": "recording" });
    let (status, head, body) = served.whole("POST", "/api/export", Some(&wish));
    let name = format!("pair-{from}-{until}.transect");
    assert!(status == 200 && head.contains(&format!("filename=\"{name}.tar\"")), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    let (f, u) = (from.to_string(), until.to_string());
    let file = path_in(dir.path(), "cli.transect.tar");
    let words = ["export", &recording, "--to", "recording", "--from", &f, "--until", &u, "-o"];
    assert!(good(dir.path(), &[&words[..], &[&file]].concat()).contains("tar xf"));
    let piped = transect(dir.path(), &[&words[..], &["-"]].concat()).stdout;
    let tars = [
        (name.as_str(), body),
        ("cli.transect", fs::read(&file).unwrap()),
        ("excerpt.transect", piped),
    ];
    for (at, (name, bytes)) in tars.into_iter().enumerate() {
        let into = dir.path().join(format!("tar{at}"));
        fs::create_dir(&into).unwrap();
        let tar = into.join("it.tar");
        fs::File::create(&tar).unwrap().write_all(&bytes).unwrap();
        untar(&tar, &into);
        let found = path_in(&into, name);
        assert_eq!(good(dir.path(), &["export", &found, "--to", "jsonl", "-o", "-"]), expected);
    }
    let empty = json!({ "from": until.to_string(), "to": from.to_string(), "format": "recording" });
    let unknown = json!({ "from": from.to_string(), "to": until.to_string(), "format": "pdf" });
    let beyond = json!({ "from": "1", "to": "2", "format": "recording" });
    let flames = json!({ "from": from.to_string(), "to": until.to_string(), "format": "flame" });
    for (wish, says) in [
        (empty, "empty"),
        (unknown, "unknown format"),
        (beyond, "no data in the range"),
        (flames, "no stacks in this range"),
    ] {
        let (status, body) = served.ask("POST", "/api/export", Some(&wish), &served.token());
        let error: Value = serde_json::from_slice(&body).unwrap();
        assert!(status == 400 && error["error"].as_str().unwrap().contains(says), "{error}");
    }
}

/// Tier `make test`: on a file system of its own.
mod host {
    use super::*;

    /// A full disk is told in one line, and leaves nothing.
    #[test]
    fn a_full_disk_leaves_no_excerpt() {
        let dir = tempfile::tempdir().unwrap();
        let Some(tiny) = Tiny::mount(dir.path().join("tiny"), "16M") else { return };
        let recording = pair(dir.path());
        good(dir.path(), &["tables", &recording]);
        let filler = tiny.path().join("filler");
        let mut full = fs::File::create(&filler).unwrap();
        while full.write_all(&[1; 4096]).is_ok() {}
        let end = full.metadata().unwrap().len();
        let small = path_in(tiny.path(), "small.transect");
        for room in [0, 16 << 10, 64 << 10] {
            full.set_len(end - room).unwrap();
            let (error, code) =
                bad(dir.path(), &["export", &recording, "--to", "recording", "-o", &small]);
            assert!(code == 1 && error.lines().count() == 1, "{error}");
            assert!(error.contains("the file system is full"), "{error}");
            assert_eq!(fs::read_dir(tiny.path()).unwrap().count(), 1, "something is left");
        }
    }
}
