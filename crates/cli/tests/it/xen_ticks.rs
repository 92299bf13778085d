//! Recordings whose TSC frequency is unknown: no number of ticks is shown as a time. And the frequency
//! that Xen printed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Recordings of Xen, and a host with its guest: trace.dat files without TSC2NSEC.
const XEN: [&str; 4] = ["live/net.bin", "live/life.bin", "pvh.bin", "lost.bin"];
const VIEWS: [&str; 14] = [
    "summary",
    "recording",
    "machines",
    "vcpus",
    "domains",
    "cpus",
    "exits",
    "antagonists",
    "threads",
    "wakeups",
    "windows",
    "lost",
    "log",
    "cost",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn testdata(name: &str) -> String {
    root().join("testdata/succeed").join(name).to_str().unwrap().to_owned()
}

/// Output of Xen's tools on the machine of `live/*.bin`.
fn printed(name: &str) -> String {
    root().join("crates/probes/xen/testdata").join(name).to_str().unwrap().to_owned()
}

/// Runs the binary with a cache of its own.
fn transect(dir: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(words).env("XDG_CACHE_HOME", dir).env("XDG_STATE_HOME", dir);
    command.stdin(Stdio::null()).output().unwrap()
}

fn succeeds(dir: &Path, words: &[&str]) -> String {
    let output = transect(dir, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(dir: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&succeeds(dir, &[words, &["--json"]].concat())).unwrap()
}

/// Every recording without a frequency: bare files, and what import makes of them.
fn recordings(dir: &Path) -> Vec<String> {
    let mut all: Vec<String> =
        XEN.iter().map(|name| testdata(&format!("xentrace/{name}"))).collect();
    let imported = |name: &str, files: &[String]| {
        let to = dir.join(name).to_str().unwrap().to_owned();
        let files = files.iter().map(String::as_str);
        let words: Vec<&str> = ["import"].into_iter().chain(files).chain(["-o", &to]).collect();
        succeeds(dir, &words);
        to
    };
    let pair =
        ["pair-host.dat", "pair-guest.dat"].map(|name| testdata(&format!("tracedat/{name}")));
    let kernels = ["xen.bin", "dom0.txt", "hog.txt", "duty.txt"];
    let kernels = [0, 1, 2, 3].map(|at| match at {
        0 => testdata("xen-kernels/xen.bin"),
        at => format!("{}={}", at - 1, testdata(&format!("xen-kernels/{}", kernels[at]))),
    });
    all.push(imported("xen.transect", &all[..1]));
    all.push(imported("pair.transect", &pair));
    all.push(imported("kernels.transect", &kernels));
    all
}

/// A number and a unit of time behind it, in one word or two.
fn times_in(text: &str) -> Vec<String> {
    const UNITS: [&str; 9] = ["ns", "µs", "us", "ms", "s", "min", "h", "second", "seconds"];
    let bare = |word: &str| word.trim_matches(|c: char| "()[],.;:±+−-–\"/".contains(c)).to_owned();
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.chars().all(|c| c.is_ascii_digit() || ",.".contains(c))
    };
    let words: Vec<String> = text.split_whitespace().map(bare).collect();
    let is_time =
        |word: &str| UNITS.iter().any(|unit| word.strip_suffix(unit).is_some_and(is_number));
    let alone = words.iter().filter(|word| is_time(word)).cloned();
    let pairs = words.windows(2).filter(|pair| is_number(&pair[0]) && UNITS.contains(&&*pair[1]));
    alone.chain(pairs.map(|pair| pair.join(" "))).collect()
}

#[test]
fn times_are_found_in_text() {
    assert_eq!(times_in("0.42 % (1.25 ms), ±3ns; 7 s"), ["3ns", "1.25 ms", "7 s"]);
    assert!(times_in("2.37 Gticks, 17 ticks, vcpu0 s, 3 domains").is_empty());
}

#[test]
fn no_view_shows_ticks_as_a_time() {
    let dir = tempfile::tempdir().unwrap();
    for recording in recordings(dir.path()) {
        let all = ["report", &recording, "--top", "1000"];
        let mut said = succeeds(dir.path(), &all);
        for view in VIEWS {
            said += &succeeds(dir.path(), &[&all[..], &["--view", view]].concat());
        }
        let found = times_in(&said.replace(&recording, ""));
        assert!(found.is_empty(), "{recording}: {found:?}\n{said}");
        assert!(said.lines().next().unwrap().contains("ticks"), "{said}");
        let headings = said.lines().filter(|line| {
            let is_title =
                |word: &str| word.len() > 3 && word.bytes().all(|b| b.is_ascii_uppercase());
            line.split(' ').next().is_some_and(is_title)
        });
        for heading in headings {
            let has_times =
                ["CPUS", "IMPORT LOG", "COST"].iter().all(|no| !heading.starts_with(no));
            assert_eq!(heading.contains("times in ticks"), has_times, "{heading}");
        }
    }
}

#[test]
fn rates_per_second_are_unknown_in_ticks() {
    let dir = tempfile::tempdir().unwrap();
    let cell = |of: &str, more: &[&str], name: &str| {
        let words = [&["report", of, "--view", "domains"], more].concat();
        let text = succeeds(dir.path(), &words);
        let mut lines = text.lines().skip_while(|line| !line.contains(name));
        let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
        let end = head[..head.find(name).unwrap() + name.len()].chars().count();
        let row: Vec<char> = row.chars().collect();
        let cell: String = row[..end].iter().collect();
        cell.split_whitespace().last().unwrap().to_owned()
    };
    let bin = testdata("xentrace/live/net.bin");
    for name in ["runs per s", "I/O per s"] {
        assert_eq!(cell(&bin, &[], name), "–");
        assert!(cell(&bin, &["--cpu-hz", "999999000"], name).parse::<f64>().is_ok());
    }
}

#[test]
fn window_length_in_seconds_is_refused_in_ticks() {
    let dir = tempfile::tempdir().unwrap();
    let bin = testdata("xentrace/live/net.bin");
    let jsonl = dir.path().join("rows.jsonl").to_str().unwrap().to_owned();
    let report = ["report", &bin, "--window", "1s"];
    let export = ["export", &bin, "--to", "jsonl", "--window", "1s", "-o", &jsonl];
    for words in [&report[..], &export[..]] {
        let output = transect(dir.path(), words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(output.stdout.is_empty() && !Path::new(&jsonl).exists());
        assert_eq!(said.lines().count(), 1, "{said}");
        for part in ["ticks of unknown length", "--cpu-hz", "cpu_mhz", "net.bin"] {
            assert!(said.contains(part), "{said}");
        }
        succeeds(dir.path(), &[words, &["--cpu-hz", "999999000"]].concat());
    }
}

/// Nor is there a default of one second.
#[test]
fn recording_in_ticks_is_one_window() {
    let dir = tempfile::tempdir().unwrap();
    for recording in recordings(dir.path()) {
        let report = json(dir.path(), &["report", &recording]);
        assert_eq!(report["time_unit"], "ticks");
        let (windows, facts) = (report["windows"].as_array().unwrap(), &report["recording"]);
        let mut actors = BTreeSet::new();
        for row in windows {
            let actor =
                ["machine_id", "vcpu", "cpu", "cgroup"].map(|column| row[column].to_string());
            assert!(actors.insert(actor), "a second window: {row}");
            assert_eq!((&row["ts"], &row["dur"]), (&facts["start_ns"], &facts["dur_ns"]));
        }
        assert!(!windows.is_empty());
    }
}

#[test]
fn csv_and_json_state_that_times_are_ticks() {
    let dir = tempfile::tempdir().unwrap();
    let bin = testdata("xentrace/live/net.bin");
    let csv = |view: &str, more: &[&str]| {
        let words = [&["report", &bin, "--csv", "--view", view, "--top", "2"], more].concat();
        succeeds(dir.path(), &words)
    };
    for view in VIEWS.into_iter().chain(["events"]) {
        let has_times = !["summary", "log", "cost"].contains(&view);
        let text = csv(view, &[]);
        assert_eq!(text.lines().next().unwrap().ends_with("time_unit"), has_times, "{text}");
        if has_times {
            assert!(text.lines().skip(1).all(|line| line.ends_with(",ticks")), "{text}");
        }
        let in_ns = csv(view, &["--cpu-hz", "999999000"]);
        let has_unit = in_ns.lines().next().unwrap().contains("time_unit");
        assert_eq!(has_unit, view == "machines", "{in_ns}");
    }
    let events =
        succeeds(dir.path(), &["report", &bin, "--view", "events", "--json", "--top", "3"]);
    for line in events.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event["time_unit"], "ticks");
    }
    // As trace-cmd prints them: no decimal point.
    let text = succeeds(dir.path(), &["report", &bin, "--view", "events", "--top", "3"]);
    for line in text.lines() {
        let stamp = line.split("] ").nth(1).unwrap().split(':').next().unwrap();
        assert!(stamp.trim().bytes().all(|b| b.is_ascii_digit()), "{line}");
    }
}

#[test]
fn exports_state_that_times_are_ticks() {
    let dir = tempfile::tempdir().unwrap();
    let bin = testdata("xentrace/live/net.bin");
    let trace = dir.path().join("net.perfetto-trace").to_str().unwrap().to_owned();
    let said = succeeds(dir.path(), &["export", &bin, "--to", "perfetto", "-o", &trace]);
    assert!(said.contains("Perfetto shows a tick as 1 ns"), "{said}");
    let bytes = fs::read(&trace).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    for text in ["in ticks", "1 ns shown = 1 tick of unknown length", "gotten (ticks)"] {
        assert!(has(text), "{text}");
    }
    let rows = succeeds(dir.path(), &["export", &bin, "--to", "jsonl", "-o", "-"]);
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let machines: Vec<Value> = rows.filter(|row| row["table"] == "machines").collect();
    assert!(!machines.is_empty() && machines.iter().all(|row| row["time_unit"] == "ticks"));
}

#[test]
fn sql_shows_no_ticks_as_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let bin = testdata("xentrace/live/net.bin");
    let ask = |more: &[&str], sql: &str| json(dir.path(), &[&["sql", &bin, sql], more].concat());
    let (hz, sql) = (["--cpu-hz", "999999000"], "SELECT NS_TEXT(1250000) AS text");
    assert_eq!(ask(&[], sql)[0]["text"], "1.25 Mticks");
    assert_eq!(ask(&hz, sql)[0]["text"], "1.25 ms");
    for view in ["domain_metrics", "pcpu_metrics"] {
        let sql = format!("SELECT count(*) AS rows, count(io_per_s) AS rates FROM {view}");
        let (ticks, ns) = (ask(&[], &sql), ask(&hz, &sql));
        assert_eq!(ticks[0]["rates"], 0, "{view}");
        assert!(ticks[0]["rows"].as_i64() > Some(0) && ns[0]["rates"] == ns[0]["rows"], "{view}");
    }
}

/// The rate that Xen printed is that of `--cpu-hz`, with the error of its whole kHz.
#[test]
fn import_takes_the_frequency_that_xen_printed() {
    let dir = tempfile::tempdir().unwrap();
    let bin = testdata("xentrace/live/net.bin");
    let import = |name: &str, more: &[&str]| {
        let to = dir.path().join(name).to_str().unwrap().to_owned();
        let said = succeeds(dir.path(), &[&["import", &bin, "-o", &to], more].concat());
        let report = json(dir.path(), &["report", &to]);
        assert!(said.contains("TSC frequency"), "{said}");
        report
    };
    let given = import("given.transect", &["--cpu-hz", "999999000"]);
    for (name, source) in [("xl-info.txt", "xl info"), ("xl-dmesg.txt", "TSC report")] {
        let report = import(&format!("{name}.transect"), &["--xen-tsc", &printed(name)]);
        assert_eq!(report["time_unit"], "ns");
        for member in ["vcpus", "domains", "windows", "antagonists", "exits"] {
            assert_eq!(report[member], given[member], "{member}");
        }
        let edge = &report["clock_edges"][0];
        assert_eq!((&edge["method"], &edge["error_bound_ns"]), (&"tsc_rate".into(), &1001.into()));
        let notes = report["notes"].to_string();
        for part in [name, source, "999999000 Hz", "1.00 ppm"] {
            assert!(notes.contains(part), "{notes}");
        }
    }
    // What the user gives wins.
    let info = printed("xl-info.txt");
    let report = import("both.transect", &["--cpu-hz", "2000000000", "--xen-tsc", &info]);
    assert!(report["notes"].to_string().contains("2000000000 Hz, from --cpu-hz"));
    assert_eq!(report["clock_edges"][0]["error_bound_ns"], 0);
    // Of no use: no file of Xen's tools; and without any of it times stay ticks.
    let to = dir.path().join("refused.transect").to_str().unwrap().to_owned();
    let words = ["import", &bin, "-o", &to, "--xen-tsc", &bin];
    let output = transect(dir.path(), &words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("xl info") && said.contains("net.bin"),
        "{said}"
    );
    let report = import("unknown.transect", &[]);
    assert_eq!(report["time_unit"], "ticks");
    assert!(report["notes"].to_string().contains("TSC frequency unknown"));
}
