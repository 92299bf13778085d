//! Xen's own trace as a user meets it: imported, reported, asked in SQL; damaged; of ten thousand domains.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests report by failing"
)]

use serde_json::Value;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use transect_model::ids::CpuId;
use transect_xentrace::event::{Runstate, XenEvent, XenVcpu};
use transect_xentrace::write::Writer;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn file(name: &str) -> String {
    root().join("testdata/succeed/xentrace").join(name).to_str().unwrap().to_owned()
}

/// Runs the binary with a cache of its own.
fn transect(cache: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(words).env("XDG_CACHE_HOME", cache).env("XDG_STATE_HOME", cache);
    command.stdin(Stdio::null()).output().unwrap()
}

fn succeeds(cache: &Path, words: &[&str]) -> String {
    let output = transect(cache, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(cache: &Path, words: &[&str]) -> Value {
    serde_json::from_str(&succeeds(cache, &[words, &["--json"]].concat())).unwrap()
}

fn number(row: &Value, column: &str) -> i64 {
    row[column].as_i64().unwrap_or_else(|| panic!("no number {column} in {row}"))
}

/// What the report says of real hosts, word for word: a domU with a cap, domUs that come and go, a network server.
#[test]
fn the_reports_of_recorded_hosts() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["cap", "life", "net"] {
        let bin = file(&format!("live/{name}.bin"));
        let words = ["report", &bin, "--cpu-hz", "1000000000", "--domain", "1=duty"];
        let text = succeeds(dir.path(), &[&words[..], &["--window", "1s"]].concat());
        // The path in the title is this clone's.
        let text = text.replace(&bin, &format!("{name}.bin"));
        let golden = root().join(format!("testdata/golden/report-xen-{name}.txt"));
        if std::env::var_os("TRANSECT_BLESS").is_some() {
            fs::write(&golden, &text).unwrap();
        }
        assert_eq!(fs::read_to_string(golden).unwrap(), text, "TRANSECT_BLESS=1 writes it anew");
    }
}

/// An imported file and the file itself give the same rows, and the recording says what it weighs.
#[test]
fn an_import_is_the_file_and_says_its_bytes_per_record() {
    let dir = tempfile::tempdir().unwrap();
    let bin = file("live/net.bin");
    let recording = dir.path().join("net.transect").to_str().unwrap().to_owned();
    let options = ["--cpu-hz", "1000000000", "--domain", "1=server"];
    let said = succeeds(dir.path(), &[&["import", &bin, "-o", &recording][..], &options].concat());
    assert!(said.contains("B per record as xentrace wrote it"), "{said}");

    let exported = |of: &str, more: &[&str]| {
        let words = [&["export", of, "--to", "jsonl", "-o", "-"], more].concat();
        succeeds(dir.path(), &words)
    };
    assert_eq!(exported(&recording, &[]), exported(&bin, &options));

    let text = succeeds(dir.path(), &["report", &recording, "--view", "recording"]);
    let stored = text.lines().find(|line| line.contains("stored")).unwrap();
    assert!(stored.contains("B each), as tables"), "{stored}");
    let names = json(dir.path(), &["sql", &recording, "SELECT name FROM machines ORDER BY 1"]);
    assert!(names.to_string().contains("server"), "{names}");
}

/// The parts of a domain add up to the whole, however it is asked: SQL's windows are the report's lines.
#[test]
fn sql_and_report_agree_on_every_domain() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["live/cap.bin", "live/life.bin", "live/net.bin", "lost.bin", "pv.bin", "pvh.bin"] {
        let bin = file(name);
        let report = json(dir.path(), &["report", &bin, "--view", "domains"]);
        let sql = "SELECT machine_id, sum(gotten_ns) AS gotten, sum(waited_ns) AS waited, \
                   sum(blocked_ns) AS blocked, sum(executions) AS executions, sum(io_count) AS io, \
                   sum(allocations) AS allocations, min(allocated_min_ns) AS least, \
                   max(allocated_max_ns) AS most FROM windows WHERE vcpu IS NULL AND cpu IS NULL \
                   AND cgroup IS NULL GROUP BY machine_id";
        let rows = json(dir.path(), &["sql", &bin, sql]);
        let rows = rows.as_array().unwrap();
        let domains = report["domains"].as_array().unwrap();
        assert!(!domains.is_empty(), "{name}");
        for line in domains {
            let row = rows.iter().find(|row| row["machine_id"] == line["machine_id"]).unwrap();
            for (column, of) in [
                ("gotten", "gotten_ns"),
                ("waited", "waited_ns"),
                ("blocked", "blocked_ns"),
                ("executions", "executions"),
                ("io", "io_count"),
                ("allocations", "allocations"),
            ] {
                assert_eq!(number(row, column), number(line, of), "{name} {column} {line}");
            }
            assert_eq!(row["least"], line["allocated_min_ns"], "{name} {line}");
            assert_eq!(row["most"], line["allocated_max_ns"], "{name} {line}");
        }
    }
}

/// A file that can be read in part is a recording that says so, and exit code 1.
#[test]
fn a_partial_import_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let whole = fs::read(file("live/cap.bin")).unwrap();
    let cut = dir.path().join("cut.bin");
    // In a record's second half: 5 bytes are no record.
    fs::write(&cut, &whole[..whole.len() / 2 + 5]).unwrap();
    let recording = dir.path().join("cut.transect").to_str().unwrap().to_owned();
    let output = transect(dir.path(), &["import", cut.to_str().unwrap(), "-o", &recording]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("cut.bin") && said.contains("byte"), "{said}");
    let report = succeeds(dir.path(), &["report", &recording, "--view", "log"]);
    assert!(report.contains("byte"), "{report}");
}

/// Ten thousand domains are counted, and do not drown whoever reads the report.
#[test]
fn ten_thousand_domains() {
    let dir = tempfile::tempdir().unwrap();
    let bin = dir.path().join("many.bin").to_str().unwrap().to_owned();
    let mut writer = Writer::new(File::create(&bin).unwrap(), 1 << 16);
    for turn in 0..3_u64 {
        for dom in 0..10_000_u16 {
            let mut tsc = 1_000_000 + (turn * 10_000 + u64::from(dom)) * 1_000;
            let vcpu = XenVcpu { dom, vcpu: 0 };
            let cycle =
                [Runstate::Blocked, Runstate::Runnable, Runstate::Running, Runstate::Blocked];
            for change in cycle.windows(2) {
                let event = XenEvent::RunstateChange { vcpu, old: change[0], new: change[1] };
                writer.event(CpuId(0), tsc, &event).unwrap();
                tsc += 300;
            }
        }
    }
    writer.finish().unwrap();
    let report = json(dir.path(), &["report", &bin]);
    assert_eq!(report["domains"].as_array().unwrap().len(), 10_000);
    let window = number(&report["recording"], "dur_ns");
    for line in report["vcpus"].as_array().unwrap() {
        let parts = ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "unknown_ns"];
        assert_eq!(parts.map(|part| number(line, part)).iter().sum::<i64>(), window, "{line}");
    }
    let text = succeeds(dir.path(), &["report", &bin]);
    assert!(text.contains("… 9,900 more (--vm NAME for one, --top 10000 for all)"), "{text}");
    assert!(text.lines().count() < 2_000, "{} lines", text.lines().count());
}
