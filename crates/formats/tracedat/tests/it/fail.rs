//! Files that are wrong in one way each: what is said about them, word for word.
//!
//! `testdata/fail/tracedat/NAME.dat` is described in `NAME.txt`. After a deliberate change of a
//! message run with `TRANSECT_UPDATE=1` and read the difference.
#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use std::{fmt::Write, path::PathBuf};
use transect_tracedat::{Item, TraceDat};

fn described(file: &[u8]) -> String {
    let mut text = String::new();
    let trace = match TraceDat::parse(file) {
        Ok(trace) => trace,
        Err(err) => return format!("error: {err}\n"),
    };
    for problem in trace.problems() {
        let _ = writeln!(text, "problem: {problem}");
    }
    for buffer in trace.buffers() {
        for cpu in buffer.cpus() {
            let mut stream = trace.stream(buffer, cpu).expect("a listed CPU");
            let mut events = 0;
            while let Some(item) = stream.next() {
                match item {
                    Item::Event { .. } => events += 1,
                    Item::Lost { count, before } => {
                        let _ = writeln!(text, "lost: {count:?} before {before}");
                    }
                    Item::Problem(problem) => {
                        let _ = writeln!(text, "problem: {problem}");
                    }
                }
            }
            let _ = writeln!(text, "read: {:?} CPU {cpu}: {events} events", buffer.name);
        }
    }
    text
}

#[test]
fn every_failure_is_explained() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../testdata/fail/tracedat");
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).expect("testdata/fail/tracedat") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ext| ext != "dat") {
            continue;
        }
        let text = described(&std::fs::read(&path).expect("a file"));
        assert!(text.contains("error: ") || text.contains("problem: "), "{}", path.display());
        let expected = path.with_extension("txt");
        if std::env::var_os("TRANSECT_UPDATE").is_some() {
            std::fs::write(&expected, &text).expect("writable");
        }
        let expected = std::fs::read_to_string(&expected).expect("its description");
        assert_eq!(text, expected, "{}", path.display());
        seen += 1;
    }
    assert!(seen > 25, "only {seen} files in {}", folder.display());
}
