//! `transect verify`, and what every verb says of a damaged recording.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]
#![allow(clippy::print_stdout, reason = "a skipped test names its reason in the log")]

use crate::view_support::{pair, transect};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use transect_clock::Evidence;
use transect_compact::{BlockWriter, FileHeader, LogId, LogWriter, Totals};
use transect_model::event::CoreEvent;
use transect_model::exit::Isa;
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_store::manifest::{MachineEntry, SourceEntry};
use transect_store::{Manifest, RecordingWriter};

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn run(dir: &Path, words: &[&str]) -> Ran {
    let output = transect(dir, words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    Ran { code, out: text(output.stdout), err: text(output.stderr) }
}

/// State and places of each file.
fn states(dir: &Path, recording: &str) -> Vec<(String, String, String)> {
    let ran = run(dir, &["verify", "--json", recording]);
    let lines: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let is_damaged = lines.iter().any(|line| line["state"] == "damaged");
    assert_eq!(ran.code, i32::from(is_damaged), "{}", ran.err);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |line: &Value| (text(&line["file"]), text(&line["state"]), line["places"].to_string());
    lines.iter().map(of).collect()
}

fn state(dir: &Path, recording: &str, file: &str) -> (String, String) {
    let found = states(dir, recording).into_iter().find(|(name, ..)| name == file);
    let (_, state, places) = found.unwrap_or_else(|| panic!("no line of {file}"));
    (state, places)
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 1;
    fs::write(file, bytes).unwrap();
}

const SUM: &str = "SELECT count(*), sum(dur) FROM cpu_slices";

fn sum(dir: &Path, recording: &str) -> Ran {
    run(dir, &["sql", "--csv", recording, SUM])
}

#[test]
fn whole_recording_is_whole_with_tables_and_tiles() {
    let scratch = tempfile::tempdir().unwrap();
    let recording = pair(scratch.path());
    assert_eq!(sum(scratch.path(), &recording).code, 0);
    let found = states(scratch.path(), &recording);
    assert!(found.iter().all(|(_, state, _)| state == "whole"), "{found:?}");
    for file in ["manifest.json", "clocks.jsonl", "checksums.bin", "host.dat", "tables"] {
        assert!(found.iter().any(|(name, ..)| name == file), "{file}: {found:?}");
    }
    let text = run(scratch.path(), &["verify", &recording]);
    assert!(text.out.ends_with("files, all whole\n"), "{}", text.out);
}

/// As [`run`], where the directory cannot be written to, and with a cache of its own. None if that cannot be had here.
fn run_read_only(dir: &Path, cache: &Path, words: &[&str]) -> Option<Ran> {
    let mount = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" && exec \"$@\"";
    let unshare = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            unshare.args(["--user", "--map-root-user"]);
        }
        unshare.args(["--mount", "sh", "-c", mount]).arg(dir);
        unshare.args(command).env("XDG_CACHE_HOME", cache).stdin(Stdio::null()).output().unwrap()
    };
    if !unshare(&["true"]).status.success() {
        println!("skipped: no mount namespace can be made here");
        return None;
    }
    let mut command = vec![env!("CARGO_BIN_EXE_transect")];
    command.extend_from_slice(words);
    let output = unshare(&command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some(Ran {
        code: output.status.code().unwrap(),
        out: text(output.stdout),
        err: text(output.stderr),
    })
}

/// The tables of a recording that cannot be written to are in the cache: they are verified and repaired there.
#[test]
fn cached_tables_are_verified() {
    let (scratch, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let recording = pair(scratch.path());
    let ran = |words: &[&str]| run_read_only(scratch.path(), cache.path(), words);
    let Some(first) = ran(&["sql", "--csv", &recording, SUM]) else { return };
    assert_eq!(first.code, 0, "{}", first.err);
    assert!(!Path::new(&recording).join("tables").exists());
    let whole = ran(&["verify", &recording]).unwrap();
    assert_eq!(whole.code, 0, "{}{}", whole.out, whole.err);
    let cached = |line: &&str| line.contains("transect/tables/") && line.contains("/tables ");
    let line = whole.out.lines().find(cached).unwrap_or_else(|| panic!("{}", whole.out));
    let tables = Path::new(line.split_whitespace().next().unwrap());
    assert!(tables.starts_with(cache.path()) && line.ends_with("whole"), "{line}");
    flip(&tables.join("exits/machine_id=1/bucket=0.parquet"), 100);
    let damaged = ran(&["verify", &recording]).unwrap();
    assert!(damaged.code == 1 && damaged.out.contains("exits"), "{}", damaged.out);
    let repaired = ran(&["verify", "--repair", &recording]).unwrap();
    assert_eq!(repaired.code, 0, "{}{}", repaired.out, repaired.err);
    assert_eq!(ran(&["sql", "--csv", &recording, SUM]).unwrap().out, first.out);
}

/// The files that all others are understood by have a copy: every answer stays what it was.
#[test]
fn manifest_and_clocks_are_restored_from_their_copies() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, recording) = (scratch.path(), pair(scratch.path()));
    let rows = || run(dir, &["export", &recording, "--to", "jsonl", "-o", "-"]).out;
    let without_log = |rows: &str| {
        let is_log = |line: &&str| line.contains("\"table\":\"import_log\"");
        rows.lines().filter(|line| !is_log(line)).map(str::to_owned).collect::<Vec<_>>()
    };
    let whole = without_log(&rows());
    for name in ["manifest.json", "clocks.jsonl"] {
        let file = Path::new(&recording).join(name);
        let written = fs::read(&file).unwrap();
        for damage in 0..4 {
            match damage {
                0 => flip(&file, written.len() / 3),
                1 => fs::write(&file, &written[..written.len() / 2]).unwrap(),
                2 => fs::remove_file(&file).unwrap(),
                // Between two lines: the rest is a whole file of its kind.
                _ => {
                    let line = written.iter().position(|byte| *byte == b'\n').unwrap();
                    fs::write(&file, &written[..=line]).unwrap();
                }
            }
            let read = rows();
            assert_eq!(without_log(&read), whole, "{name} {damage}");
            assert!(read.contains(&format!("\"source\":\"{name}\"")), "{name} {damage}");
            assert_eq!(state(dir, &recording, name).0, "damaged", "{name} {damage}");
            let repaired = run(dir, &["verify", "--repair", &recording]);
            assert_eq!(repaired.code, 0, "{name} {damage}: {}", repaired.out);
            assert_eq!(fs::read(&file).unwrap(), written, "{name} {damage}");
        }
    }
}

#[test]
fn damaged_source_is_told_by_every_verb_and_its_events_are_unknown() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, recording) = (scratch.path(), pair(scratch.path()));
    let whole = run(dir, &["export", &recording, "--to", "jsonl", "-o", "-"]);
    assert_eq!((whole.code, whole.err.as_str()), (0, ""));
    let file = Path::new(&recording).join("host.dat");
    let length = fs::metadata(&file).unwrap().len();
    flip(&file, usize::try_from(length).unwrap() / 2);
    let (state, places) = state(dir, &recording, "host.dat");
    assert!(state == "damaged" && places.contains("the checksum is wrong"), "{state} {places}");
    let says = |ran: &Ran, what: &str| {
        assert_eq!(ran.code, 0, "{what}: {}", ran.err);
        let all = format!("{}{}", ran.out, ran.err);
        assert!(all.contains("host.dat") && all.contains("the checksum is wrong"), "{what}: {all}");
    };
    let pftrace = dir.join("out.pftrace").to_str().unwrap().to_owned();
    let small = dir.join("small.transect").to_str().unwrap().to_owned();
    says(&run(dir, &["report", &recording, "--view", "log"]), "report");
    says(&sum(dir, &recording), "sql");
    says(&sum(dir, &recording), "sql again, with the tables that are there");
    says(&run(dir, &["export", &recording, "--to", "perfetto", "-o", &pftrace]), "perfetto");
    says(&run(dir, &["export", &recording, "--to", "jsonl", "-o", "-"]), "jsonl");
    says(&run(dir, &["export", &recording, "--to", "recording", "-o", &small]), "recording");
    let damaged = run(dir, &["export", &recording, "--to", "jsonl", "-o", "-"]).out;
    let holes = |rows: &str| rows.matches("\"table\":\"lost\"").count();
    assert!(holes(&damaged) > holes(&whole.out));
    assert_eq!(run(dir, &["verify", "--repair", &recording]).code, 1, "there is no other");
}

/// Rows of a table, each with the values of these columns.
fn cells(rows: &str, table: &str, columns: &[&str]) -> Vec<String> {
    let rows = rows.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_table = rows.filter(|row| row["table"] == table);
    of_table.map(|row| columns.iter().map(|column| format!("{} ", row[column])).collect()).collect()
}

/// What is left is told of the time that was recorded, whichever file is gone.
#[test]
fn window_stays_that_of_the_recording_when_its_hosts_file_is_damaged() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, recording) = (scratch.path(), pair(scratch.path()));
    let rows = || run(dir, &["export", &recording, "--to", "jsonl", "-o", "-"]);
    let whole = rows().out;
    let windows = |rows: &str| cells(rows, "windows", &["ts", "dur"]);
    let times = |rows: &str| windows(rows).into_iter().collect::<std::collections::BTreeSet<_>>();
    let slice = ["ts", "dur", "machine_id", "cpu", "tid"];
    let known = |rows: &str| {
        let slices = cells(rows, "cpu_slices", &slice).into_iter();
        slices
            .filter(|cells| cells.contains(" 1 ") && !cells.ends_with("null "))
            .collect::<Vec<_>>()
    };
    let file = Path::new(&recording).join("host.dat");
    let written = fs::read(&file).unwrap();
    assert!(!windows(&whole).is_empty() && !known(&whole).is_empty());
    for damage in ["deleted", "empty", "cut"] {
        fs::write(&file, &written).unwrap();
        match damage {
            "deleted" => fs::remove_file(&file).unwrap(),
            "empty" => fs::write(&file, b"").unwrap(),
            _ => fs::write(&file, &written[..written.len() * 3 / 4]).unwrap(),
        }
        let damaged = rows();
        assert!(damaged.code == 0 && damaged.out.contains("host.dat"), "{damage}: {}", damaged.err);
        assert_eq!(times(&damaged.out), times(&whole), "{damage}");
        let of_whole = known(&whole);
        let others: Vec<_> = known(&damaged.out);
        let others: Vec<_> = others.iter().filter(|slice| !of_whole.contains(slice)).collect();
        assert!(others.is_empty(), "{damage}: {others:?}");
    }
}

#[test]
fn damaged_head_of_a_source_is_an_error_with_a_remedy() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path();
    let output = dir.join("one.transect").to_str().unwrap().to_owned();
    let dat = crate::view_support::testdata("tracedat/pair-host.dat");
    assert_eq!(run(dir, &["import", &dat, "-o", &output]).code, 0);
    flip(&Path::new(&output).join("host.dat"), 1000);
    for words in [
        &["report", &output][..],
        &["sql", &output, SUM],
        &["export", &output, "--to", "jsonl", "-o", "-"],
    ] {
        let ran = run(dir, words);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{words:?}");
        let is_told = ran.err.contains("host.dat: byte 0: the checksum is wrong");
        assert!(is_told && ran.err.contains("copy the file again"), "{words:?}: {}", ran.err);
    }
}

/// A whole file of the same format, but of another machine.
#[test]
fn another_file_in_the_place_of_a_source_is_an_error() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("r.transect");
    let mut manifest = Manifest::new(0, Vec::new());
    manifest.add_machine(machine("host"));
    let writer = RecordingWriter::create(&dir, manifest).unwrap();
    let file = writer.add_compact(source()).unwrap();
    let events = |count| compact((0..count).map(|at| 1_000 * at));
    file.append(&[&events(300)]).unwrap();
    let reference = Evidence::Reference { machine: MachineId(0), clock: "mono".to_owned() };
    writer.evidence(&reference).unwrap();
    assert!(writer.finish().unwrap().problems.is_empty());
    let recording = dir.to_str().unwrap();
    let whole = run(scratch.path(), &["export", recording, "--to", "jsonl", "-o", "-"]);
    assert_eq!((whole.code, whole.err.as_str()), (0, ""));
    for other in [200, 400] {
        fs::write(dir.join("host.compact"), events(other)).unwrap();
        for words in [&["report", recording][..], &["sql", recording, SUM]] {
            let ran = run(scratch.path(), words);
            let is_told =
                ran.err.contains("host.compact: it is whole, but not the file that was recorded");
            assert!(
                ran.code == 1 && is_told && ran.err.contains("copy the file again"),
                "{}",
                ran.err
            );
        }
        let (found, places) = state(scratch.path(), recording, "host.compact");
        assert!(
            found == "damaged" && places.contains("its end is not what was written"),
            "{places}"
        );
    }
}

fn machine(name: &str) -> MachineEntry {
    serde_json::from_value(json!({ "id": 0, "kind": "host", "name": name })).unwrap()
}

fn source() -> SourceEntry {
    serde_json::from_value(json!({
        "machine_id": 0, "file": "host.compact", "format": "compact", "clock": "mono",
        "sub_buffer_bytes": 32768, "cpu_count": 1
    }))
    .unwrap()
}

/// A file of system calls at these moments.
fn compact(moments: impl Iterator<Item = u64>) -> Vec<u8> {
    let header = FileHeader::new(1, Isa::Svm, "test");
    let mut file = BlockWriter::new(Vec::new(), &header).unwrap();
    let mut log = LogWriter::new(LogId { cpu: CpuId(0), side: 0 });
    for (nr, ts) in moments.enumerate() {
        let event = CoreEvent::SyscallEnter { nr: i64::try_from(nr).unwrap() };
        log.event(1_000_000 + ts, Tid(7), &event, &mut file).unwrap();
    }
    log.finish(&mut file).unwrap();
    file.finish(&Totals::default()).unwrap()
}

#[test]
fn damaged_tables_are_made_again_on_repair() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, recording) = (scratch.path(), pair(scratch.path()));
    let whole = sum(dir, &recording).out;
    let tables = Path::new(&recording).join("tables");
    let file = tables.join("cpu_slices/machine_id=0/bucket=0.parquet");
    flip(&file, 100);
    let (found, places) = state(dir, &recording, "tables");
    assert!(found == "damaged" && places.contains("cpu_slices/machine_id=0"), "{places}");
    let repaired = run(dir, &["verify", "--repair", &recording]);
    assert_eq!(repaired.code, 0, "{}", repaired.out);
    assert!(repaired.out.contains("repaired"), "{}", repaired.out);
    let after = sum(dir, &recording);
    assert_eq!((after.out.as_str(), after.err.as_str()), (whole.as_str(), ""));
    // The folder alone, too.
    flip(&file, 100);
    let alone = run(dir, &["verify", tables.to_str().unwrap()]);
    assert!(alone.code == 1 && alone.out.contains("bucket=0.parquet"), "{}", alone.out);
}

#[test]
fn other_directories_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().to_str().unwrap();
    for (words, said) in [
        (["verify", path], "neither a recording, nor the data directory"),
        (["verify", "/dev/null"], "not a directory"),
    ] {
        let ran = run(scratch.path(), &words);
        assert!(ran.code == 1 && ran.err.contains(said), "{}", ran.err);
    }
}
