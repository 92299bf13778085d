//! What a file says, in words, as `testdata/{succeed,fail}/xentrace/*.txt` have it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the report")]

use std::fmt::Write;
use std::path::PathBuf;
use transect_xentrace::{Record, XenTrace, XenVersion};

pub(crate) fn folder(kind: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../testdata").join(kind).join("xentrace")
}

/// Files of a folder of the corpus, by name without ending.
pub(crate) fn files(kind: &str) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder(kind))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "bin"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

fn line(record: &Record<'_>) -> String {
    let mut text = format!("{} {} {}", record.at_bytes, record.tsc, record.name());
    for (field, value) in record.fields() {
        let _ = write!(text, " {}={}", field.name, field.show(value));
    }
    text
}

/// Everything of a file: of each CPU the first `most` records.
pub(crate) fn described(file: &[u8], most: usize) -> String {
    let mut text = String::new();
    let trace = match XenTrace::parse(file, XenVersion::Unknown) {
        Ok(trace) => trace,
        Err(err) => return format!("error: {err}\n"),
    };
    for problem in trace.problems() {
        let _ = writeln!(text, "problem: {problem}");
    }
    let mut partial = trace.is_partial();
    for cpu in trace.cpus() {
        let mut stream = trace.stream(cpu);
        let records: Vec<Record<'_>> = stream.by_ref().collect();
        for problem in stream.problems() {
            let _ = writeln!(text, "problem: {problem}");
        }
        partial |= stream.is_partial();
        let _ = writeln!(text, "CPU {cpu}: {:?}", stream.totals());
        for record in records.iter().take(most) {
            let _ = writeln!(text, "  {}", line(record));
        }
    }
    let _ = writeln!(text, "partial: {partial}");
    text
}
