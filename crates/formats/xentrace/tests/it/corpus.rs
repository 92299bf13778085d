//! Files that are right and files that are wrong in one way each: what is said about them, word
//! for word. After a deliberate change run with `TRANSECT_UPDATE=1` and read the difference.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use crate::common::{described, files, folder};
use transect_xentrace::{XenTrace, XenVersion};

fn check(kind: &str, most: usize, at_least: usize) {
    let files = files(kind);
    assert!(files.len() >= at_least, "only {} files", files.len());
    for (name, file) in files {
        let text = described(&file, most);
        let wrong = text.contains("error: ") || text.contains("problem: ");
        assert_eq!(wrong, kind == "fail", "{name}:\n{text}");
        let path = folder(kind).join(format!("{name}.txt"));
        if std::env::var_os("TRANSECT_UPDATE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap();
        assert!(text == expected, "{name} says\n{text}\ninstead of\n{expected}");
    }
}

#[test]
fn what_is_right_is_read() {
    check("succeed", 120, 7);
}

#[test]
fn every_failure_is_explained() {
    check("fail", 40, 18);
}

/// The ends of a file alone tell what all of its records tell.
#[test]
fn span_is_that_of_all_records() {
    for (name, file) in files("succeed") {
        let trace = XenTrace::parse(&file, XenVersion::Unknown).unwrap();
        let stamps = || trace.cpus().flat_map(|cpu| trace.stream(cpu)).map(|record| record.tsc);
        let all = stamps().min().zip(stamps().max());
        assert!(all.is_some() && trace.span() == all, "{name}: {:?} {all:?}", trace.span());
    }
}
