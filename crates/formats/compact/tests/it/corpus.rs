//! The files of `testdata/{succeed,fail}/compact`: what is read of them, word for word.
//!
//! `NAME.compact` is described in `NAME.txt`. After a deliberate change run with
//! `TRANSECT_UPDATE=1` and read the difference. The files themselves are made by the example
//! `corpus`, or recorded (see the README beside them).
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};
use transect_compact::{Compact, Item, repack};

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../testdata").join(kind).join("compact")
}

fn files(kind: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "compact"))
        .collect();
    files.sort();
    files
}

/// Everything a file tells. Events are counted only where there are many.
fn described(file: &[u8]) -> String {
    let mut text = String::new();
    let compact = match Compact::parse(file) {
        Ok(compact) => compact,
        Err(err) => return format!("error: {err}\n"),
    };
    for problem in compact.problems() {
        writeln!(text, "problem: {problem}").unwrap();
    }
    for (tid, comm) in compact.names().threads() {
        writeln!(text, "thread {tid}: {comm:?}").unwrap();
    }
    for (number, name) in compact.names().devices() {
        writeln!(text, "device {number}: {name:?}").unwrap();
    }
    for note in compact.notes() {
        writeln!(text, "note: {note}").unwrap();
    }
    for log in compact.logs() {
        writeln!(text, "{log}: {} bytes of words", compact.raw_bytes(log)).unwrap();
    }
    for cpu in compact.cpus() {
        let items: Vec<Item> = compact.stream(cpu).unwrap().collect();
        describe_items(&items, &mut text);
        let events = items.iter().filter(|item| matches!(item, Item::Event { .. })).count();
        writeln!(text, "CPU {cpu}: {events} events").unwrap();
    }
    match compact.totals() {
        Some(totals) => {
            for log in &totals.logs {
                writeln!(text, "total of CPU {} (side: {}): {log:?}", log.cpu, log.side).unwrap();
            }
        }
        None => text.push_str("not ended in order\n"),
    }
    text
}

/// Events listed one by one at most.
const LISTED: usize = 120;

fn describe_items(items: &[Item], text: &mut String) {
    for (n, item) in items.iter().enumerate() {
        match item {
            Item::Event { ts, tid, event } if n < LISTED => {
                writeln!(text, "{ts} tid {tid} {event:?}").unwrap();
            }
            Item::Event { .. } => {}
            Item::Lost(lost) => writeln!(text, "lost: {lost:?}").unwrap(),
            Item::Problem(problem) => writeln!(text, "problem: {problem}").unwrap(),
        }
    }
}

/// Does a line begin with one of these?
fn says(text: &str, words: &[&str]) -> bool {
    text.lines().any(|line| words.iter().any(|word| line.starts_with(word)))
}

fn compare(path: &Path, text: &str) {
    let expected = path.with_extension("txt");
    if std::env::var_os("TRANSECT_UPDATE").is_some() {
        fs::write(&expected, text).unwrap();
    }
    assert_eq!(text, fs::read_to_string(&expected).unwrap(), "{}", path.display());
}

#[test]
fn good_files_are_read_whole() {
    let files = files("succeed");
    assert!(files.len() >= 4, "only {files:?}");
    for path in files {
        let file = fs::read(&path).unwrap();
        let text = described(&file);
        assert!(!says(&text, &["problem: ", "error: "]), "{}", path.display());
        compare(&path, &text);
    }
}

/// Packed and unpacked, a file tells the same.
#[test]
fn good_files_are_the_same_packed() {
    for path in files("succeed") {
        let file = fs::read(&path).unwrap();
        let packed = repack(&file, Vec::new()).unwrap();
        assert_eq!(described(&packed), described(&file), "{}", path.display());
    }
}

#[test]
fn every_failure_is_explained() {
    let files = files("fail");
    assert!(files.len() >= 20, "only {files:?}");
    for path in files {
        let text = described(&fs::read(&path).unwrap());
        assert!(says(&text, &["error: ", "problem: ", "lost: "]), "{}", path.display());
        compare(&path, &text);
    }
}

/// The ends of a file alone tell what all of its events tell.
#[test]
fn span_is_that_of_all_events() {
    let mut with_events = 0;
    for path in files("succeed") {
        let bytes = fs::read(&path).unwrap();
        let compact = Compact::parse(&bytes).unwrap();
        let stamps = compact.cpus().flat_map(|cpu| compact.stream(cpu).unwrap());
        let stamps: Vec<_> = stamps
            .filter_map(|item| match item {
                Item::Event { ts, .. } => Some(ts),
                Item::Lost(_) | Item::Problem(_) => None,
            })
            .collect();
        let all = stamps.iter().min().copied().zip(stamps.iter().max().copied());
        assert_eq!(compact.span(), all, "{}", path.display());
        with_events += usize::from(all.is_some());
    }
    assert!(with_events > 3);
}
