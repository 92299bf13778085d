//! The built `transect` answers what the XenMon study asks, and as xenalyze does.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failed expectation is the report")]

use std::env;
use std::path::{Path, PathBuf};

use transect_studies::xenmon::analysis::{COLUMNS, metrics};

fn transect() -> PathBuf {
    let target = env::var_os("TRANSECT_BIN_DIR").or_else(|| env::var_os("CARGO_TARGET_DIR"));
    let target =
        target.map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let path = target.join("release/transect");
    assert!(path.is_file(), "{} is not built: run `make build` first", path.display());
    path
}

/// Of `net.summary.txt`, which xenalyze wrote about `net.bin`: how often dom0 and the server ran, and how
/// often they notified.
const EXECUTIONS_AND_NOTIFICATIONS: [(&str, u64, u64); 2] = [("dom0", 131, 66), ("dom1", 97, 34)];

#[test]
fn metrics_of_a_small_trace_are_those_of_xenalyze() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/succeed/xentrace/live");
    let windows = metrics(&transect(), &traces.join("net.bin"), 999_999_000, 1).unwrap();
    let value = |row: &[String], name: &str| {
        row[COLUMNS.iter().position(|&column| column == name).unwrap()].clone()
    };
    let number = |row: &[String], name: &str| value(row, name).parse::<u64>().unwrap();
    for row in &windows {
        let parts = ["gotten_ns", "waited_ns", "blocked_ns", "offline_ns", "unknown_ns"];
        let sum: u64 = parts.iter().map(|part| number(row, part)).sum();
        assert_eq!(sum, number(row, "dur"), "{row:?}");
        assert_eq!(number(row, "lost"), 0);
    }
    for (domain, executions, notifications) in EXECUTIONS_AND_NOTIFICATIONS {
        let of_domain: Vec<_> =
            windows.iter().filter(|row| value(row, "domain") == domain).collect();
        let sum = |name: &str| of_domain.iter().map(|row| number(row, name)).sum::<u64>();
        // What ran when the trace began was scheduled in before it.
        assert!((executions - 1..=executions).contains(&sum("executions")), "{domain}");
        assert!(sum("io_count") >= notifications, "{domain}");
    }
}
