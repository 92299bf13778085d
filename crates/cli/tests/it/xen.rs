//! What users see of a Xen trace: views and report agree, windows of any length add up, domains come and go, a cap reads
//! as it was set, and xentop, which asked Xen while the trace was made, saw the same shares.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_precision_loss,
    reason = "tests report by failing; percents"
)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The machines the recordings were made on.
const HZ: &str = "2596139000";
const LIVE_HZ: &str = "999999000";
const RECORDINGS: [(&str, &str); 8] = [
    ("pv", HZ),
    ("pvh", HZ),
    ("grants", HZ),
    ("lost", HZ),
    ("live/cap", LIVE_HZ),
    ("live/net", LIVE_HZ),
    ("live/life", LIVE_HZ),
    ("live/top", LIVE_HZ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/succeed/xentrace")
}

fn transect(args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    let out = command.args(args).stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).unwrap()
}

/// A recording made of an xentrace file.
struct Imported {
    _folder: tempfile::TempDir,
    path: String,
}

impl Imported {
    fn new(name: &str, hz: &str, more: &[&str]) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("xen.transect").display().to_string();
        let file = folder().join(format!("{name}.bin")).display().to_string();
        let args = ["import", &file, "-o", &path, "--cpu-hz", hz, "--xen-version", "4.17"];
        transect(&[&args, more].concat());
        Imported { _folder: scratch, path }
    }

    fn sql(&self, question: &str) -> Vec<Value> {
        serde_json::from_str(&transect(&["sql", &self.path, "--json", question])).unwrap()
    }

    fn report(&self, more: &[&str]) -> Value {
        let args = ["report", &self.path, "--json"];
        serde_json::from_str(&transect(&[&args, more].concat())).unwrap()
    }

    fn windows(&self, length: &str) -> Vec<Value> {
        let report = self.report(&["--view", "windows", "--window", length]);
        report["windows"].as_array().unwrap().clone()
    }
}

fn number(row: &Value, column: &str) -> i64 {
    row[column].as_i64().unwrap_or_else(|| panic!("no number {column} in {row}"))
}

/// Every row of a list of the report is there, with the same values.
fn same(ours: &[Value], theirs: &Value, key: &[&str], columns: &[&str]) {
    let theirs = theirs.as_array().unwrap();
    assert_eq!(ours.len(), theirs.len());
    for row in theirs {
        let own = ours.iter().find(|own| key.iter().all(|key| own[key] == row[key]));
        let own = own.unwrap_or_else(|| panic!("{row} is missing"));
        for column in columns {
            assert_eq!(own[column], row[column], "{column} of {row}");
        }
    }
}

#[test]
fn views_say_what_the_report_says() {
    for (name, hz) in RECORDINGS {
        let recording = Imported::new(name, hz, &[]);
        let report = recording.report(&[]);
        let times = ["guest_ns", "exit_ns", "hypercall_ns", "trap_ns", "running_ns"];
        let rest = ["preempted_ns", "waking_ns", "halted_ns", "offline_ns", "unknown_ns"];
        let vcpus = recording.sql("SELECT * FROM vcpu_time");
        same(&vcpus, &report["vcpus"], &["machine_id", "vcpu"], &[times, rest].concat());
        let cpus = recording.sql("SELECT * FROM cpu_time");
        let columns = ["window_ns", "vcpu_ns", "thread_ns", "idle_ns", "unknown_ns", "slices"];
        same(&cpus, &report["cpus"], &["machine_id", "cpu"], &columns);
        let domains = recording.sql(
            "SELECT machine_id, domid, sum(executions) AS executions, sum(gotten_ns) AS gotten_ns, \
             sum(waited_ns) AS waited_ns, sum(blocked_ns) AS blocked_ns, sum(io_count) AS io_count, \
             sum(allocations) AS allocations, min(allocated_min_ns) AS allocated_min_ns, \
             max(allocated_max_ns) AS allocated_max_ns FROM domain_metrics \
             WHERE vcpu IS NULL AND cpu IS NULL AND domid IN (SELECT domid FROM domain_states \
             JOIN machines ON machines.machine_id = domain_states.machine_id) GROUP BY machine_id, domid",
        );
        let counts = ["executions", "gotten_ns", "waited_ns", "blocked_ns", "io_count"];
        let slices = ["domid", "allocations", "allocated_min_ns", "allocated_max_ns"];
        same(&domains, &report["domains"], &["machine_id"], &[&counts[..], &slices[..]].concat());
        let behind = recording.sql(
            "SELECT machine_id, vcpu, by_kind, waited_ns, count FROM antagonists WHERE by_kind = 'machine'",
        );
        let theirs = report["antagonists"].as_array().unwrap();
        let theirs = theirs.iter().filter(|row| row["by_kind"] == "machine");
        let sum = |rows: Vec<&Value>| rows.iter().map(|row| number(row, "waited_ns")).sum::<i64>();
        assert_eq!(sum(behind.iter().collect()), sum(theirs.collect()), "{name}");
    }
}

/// Who a row is about.
fn actor(row: &Value) -> String {
    format!("{} {} {}", row["machine_id"], row["vcpu"], row["cpu"])
}

#[test]
fn windows_of_any_length_add_up() {
    let sums = ["dur", "executions", "gotten_ns", "waited_ns", "blocked_ns", "offline_ns"];
    let more = ["unknown_ns", "guest_ns", "allocations", "io_count", "exits"];
    let columns = [&sums[..], &more[..]].concat();
    for (name, hz) in RECORDINGS {
        let recording = Imported::new(name, hz, &[]);
        let added = |length: &str| {
            let mut added: BTreeMap<(String, &str), i64> = BTreeMap::new();
            for row in recording.windows(length) {
                for &column in &columns {
                    *added.entry((actor(&row), column)).or_default() += number(&row, column);
                }
            }
            added
        };
        let whole = added("10s");
        assert!(!whole.is_empty());
        for length in ["1s", "7ms"] {
            let parts = added(length);
            for (key, sum) in &whole {
                assert_eq!(parts.get(key), Some(sum), "{name}: {key:?} in windows of {length}");
            }
            assert_eq!(parts.len(), whole.len(), "{name}: {length}");
        }
    }
}

/// A row for each pCPU and window: busy, idle and not known make it up, and the report's sums are its sums.
#[test]
fn every_pcpu_has_its_windows() {
    for (name, hz) in RECORDINGS {
        let recording = Imported::new(name, hz, &[]);
        let rows = recording.sql("SELECT * FROM pcpu_metrics");
        let report = recording.report(&[]);
        for row in &rows {
            let parts = ["busy_ns", "idle_ns", "unknown_ns"].map(|part| number(row, part));
            assert_eq!(parts.iter().sum::<i64>(), number(row, "dur"), "{name}: {row}");
        }
        let cpus = report["cpus"].as_array().unwrap();
        assert!(!cpus.is_empty());
        for cpu in cpus {
            let own: Vec<_> = rows.iter().filter(|row| row["cpu"] == cpu["cpu"]).collect();
            let sum = |column| own.iter().map(|row| number(row, column)).sum::<i64>();
            assert_eq!(sum("busy_ns"), number(cpu, "vcpu_ns"), "{name}: {cpu}");
            assert_eq!(sum("idle_ns"), number(cpu, "idle_ns"), "{name}: {cpu}");
            assert_eq!(sum("dur"), number(cpu, "window_ns"), "{name}: {cpu}");
        }
        let ran: i64 = rows.iter().map(|row| number(row, "executions")).sum();
        let domains = report["vcpus"].as_array().unwrap();
        assert_eq!(ran, domains.iter().map(|row| number(row, "executions")).sum::<i64>(), "{name}");
    }
}

#[test]
fn domains_come_and_go() {
    let recording =
        Imported::new("live/life", LIVE_HZ, &["--domain", "1=duty", "--domain", "2=brief"]);
    let windows = recording.sql(
        "SELECT w.dur, w.gotten_ns, w.offline_ns, w.unknown_ns, w.executions FROM windows w \
         JOIN machines m ON m.machine_id = w.machine_id \
         WHERE m.name = 'brief' AND w.vcpu IS NULL AND w.cpu IS NULL ORDER BY w.ts",
    );
    let is_away = |row: &Value| row["offline_ns"] == row["dur"] && row["executions"] == 0;
    let (first, last) = (windows.first().unwrap(), windows.last().unwrap());
    assert!(is_away(first) && is_away(last), "{windows:#?}");
    assert!(windows.iter().any(|row| number(row, "gotten_ns") > number(row, "dur") / 2));
    assert!(windows.iter().all(|row| row["unknown_ns"] == 0));
    let duty = recording.sql(
        "SELECT w.offline_ns, w.executions FROM windows w JOIN machines m ON m.machine_id = w.machine_id \
         WHERE m.name = 'duty' AND w.vcpu IS NULL AND w.cpu IS NULL ORDER BY w.ts",
    );
    let paused = duty.iter().position(|row| number(row, "offline_ns") > 0).unwrap();
    assert!(number(&duty[0], "executions") > 0 && paused > 0, "{duty:#?}");
    assert!(duty.iter().skip(paused).any(|row| row["offline_ns"] == 0), "{duty:#?}");
}

#[test]
fn a_cap_reads_as_it_was_set() {
    let recording = Imported::new("live/cap", LIVE_HZ, &["--domain", "1=hog"]);
    let question = "SELECT dur, gotten_share FROM domain_metrics \
                    WHERE machine = 'hog' AND vcpu IS NULL AND cpu IS NULL";
    let rows = recording.sql(question);
    assert!(rows.iter().any(|row| row["dur"] == 1_000_000_000));
    for row in rows {
        let percent = 100.0 * row["gotten_share"].as_f64().unwrap();
        assert!((percent - 30.0).abs() <= 0.3, "{percent} of {row}");
    }
}

/// `top.xentop.txt`: for each look, what each domain had since the look before, in percent of a pCPU.
fn xentop() -> Vec<BTreeMap<String, f64>> {
    let text = std::fs::read_to_string(folder().join("live/top.xentop.txt")).unwrap();
    let mut looks: Vec<BTreeMap<String, f64>> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["NAME", ..] => looks.push(BTreeMap::new()),
            [name, _state, _seconds, percent, ..] => {
                let name = if name == "Domain-0" { "dom0" } else { name };
                looks.last_mut().unwrap().insert(name.to_owned(), percent.parse().unwrap());
            }
            _ => panic!("{line}"),
        }
    }
    looks
}

/// xentop prints one place; a look takes it a few ms, in which domains run, too.
const XENTOP_WITHIN: f64 = 0.2;

#[test]
fn xentop_saw_the_same_shares() {
    let names =
        ["--domain", "0=dom0", "--domain", "1=hog", "--domain", "2=spin", "--domain", "3=duty"];
    let recording = Imported::new("live/top", LIVE_HZ, &names);
    // Each look begins with a `sysctl` of dom0's, a second after the last of the look before.
    let rows = recording.sql("SELECT ts FROM ev_xen_pv_hypercall_v2 WHERE op = 35 ORDER BY ts");
    let mut asked = Vec::new();
    let mut before = i64::MIN;
    for at in rows.iter().map(|row| number(row, "ts")) {
        if at > before.saturating_add(500_000_000) {
            asked.push(at);
        }
        before = at;
    }
    let looks = xentop();
    assert!(looks.len() >= 4 && asked.len() >= looks.len(), "{} of {asked:?}", looks.len());
    for (look, between) in looks[1..].iter().zip(asked.windows(2)) {
        let (from, to) = (between[0], between[1]);
        let ran = recording.sql(&format!(
            "SELECT m.name, sum(least(s.ts + s.dur, {to}) - greatest(s.ts, {from})) AS ns FROM vcpu_states s \
             JOIN machines m ON m.machine_id = s.machine_id WHERE s.ts < {to} AND s.ts + s.dur > {from} \
             AND s.state IN ('running', 'hypercall', 'trap') GROUP BY m.name"
        ));
        assert_eq!(ran.len(), look.len());
        for row in ran {
            let percent = 100.0 * number(&row, "ns") as f64 / (to - from) as f64;
            let theirs = look[row["name"].as_str().unwrap()];
            assert!(
                (percent - theirs).abs() <= XENTOP_WITHIN,
                "{row}: {percent:.2}, xentop {theirs}"
            );
        }
    }
}
