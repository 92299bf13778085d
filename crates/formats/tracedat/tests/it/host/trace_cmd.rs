//! Every event of every recording as trace-cmd shows it: event, CPU, thread, name, stamp to the
//! nanosecond, every field's value.
//!
//! The recordings are in `testdata/succeed/tracedat` with what trace-cmd printed for them; where
//! trace-cmd is installed it is asked again. `TRANSECT_PEER_FILES` (paths separated by `:`) adds
//! recordings that are too large to keep.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "test code")]

use crate::common::{compare, instances, ours, report, theirs};
use std::path::PathBuf;

fn corpus() -> Vec<PathBuf> {
    let folder = crate::common::testdata().join("succeed/tracedat");
    let entries = std::fs::read_dir(&folder).expect("testdata/succeed/tracedat");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "dat"));
    paths.sort();
    assert!(!paths.is_empty(), "no recordings in {}", folder.display());
    paths
}

#[test]
fn same_events_as_the_stored_reports() {
    for path in corpus() {
        let file = std::fs::read(&path).expect("a recording");
        let packed = std::fs::read(path.with_extension("report.zst")).expect("its report");
        let golden = zstd::decode_all(packed.as_slice()).expect("a compressed text");
        let golden = String::from_utf8_lossy(&golden);
        let theirs = theirs(&golden, &instances(&file));
        let count = compare(&path.display().to_string(), &ours(&file), &theirs);
        println!("{}: {count} events equal", path.display());
    }
}

#[test]
fn same_events_as_trace_cmd_now() {
    for path in corpus() {
        let file = std::fs::read(&path).expect("a recording");
        if path.to_string_lossy().contains("zlib") {
            // Debian's trace-cmd is built without zlib; the stored report is of the same events.
            continue;
        }
        let Some(report) = report(&path, &[]) else { return };
        compare(&path.display().to_string(), &ours(&file), &theirs(&report, &instances(&file)));
    }
}

/// Without trace-cmd's corrections our raw stamps are its raw stamps.
#[test]
fn same_raw_stamps_as_trace_cmd_now() {
    for name in ["pair-guest", "odd-drifting", "odd-converted", "v7-tsc2nsec", "v7-date"] {
        let path =
            crate::common::testdata().join("succeed/tracedat").join(name).with_extension("dat");
        let file = std::fs::read(&path).expect("a recording");
        let Some(report) = crate::common::report(&path, &["--raw-ts"]) else { return };
        let raw = crate::common::ours_with(&file, |_, ts, _| ts);
        assert_ne!(raw, ours(&file), "{name}: corrections change stamps");
        compare(name, &raw, &theirs(&report, &[]));
    }
}

#[test]
fn same_events_of_large_recordings() {
    let Ok(paths) = std::env::var("TRANSECT_PEER_FILES") else {
        println!("skipped: TRANSECT_PEER_FILES names no recordings");
        return;
    };
    for path in paths.split(':').map(PathBuf::from) {
        let file = std::fs::read(&path).expect("a recording");
        let Some(report) = report(&path, &[]) else { return };
        let theirs = theirs(&report, &instances(&file));
        let count = compare(&path.display().to_string(), &ours(&file), &theirs);
        println!("{}: {count} events equal", path.display());
    }
}
