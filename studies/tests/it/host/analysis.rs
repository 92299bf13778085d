//! The built `transect` answers what the XenMon study asks, and as xenalyze does.

#![allow(clippy::unwrap_used, reason = "helpers of tests: a failed expectation is the report")]

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use transect_studies::xenmon::analysis::{COLUMNS, metrics};
use transect_xentrace::{XenEvent, XenTrace, XenVersion};

fn transect() -> PathBuf {
    let target = env::var_os("TRANSECT_BIN_DIR").or_else(|| env::var_os("CARGO_TARGET_DIR"));
    let target =
        target.map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"), PathBuf::from);
    let path = target.join("release/transect");
    assert!(path.is_file(), "{} is not built: run `make build` first", path.display());
    path
}

/// Of `net.summary.txt`, which xenalyze wrote about `net.bin`: domains, how many intervals they ran in, and how often
/// they notified. One interval is over, and another begins, also where the scheduler lets a domain go on.
const INTERVALS_AND_NOTIFICATIONS: [(u16, u64, u64); 2] = [(0, 131, 66), (1, 97, 34)];

/// How often the scheduler let a domain go on that had the pCPU already.
fn continued(file: &Path, domid: u16) -> u64 {
    let bytes = fs::read(file).unwrap();
    let trace = XenTrace::parse(&bytes, XenVersion::Minor(17)).unwrap();
    let records = trace.cpus().flat_map(|cpu| trace.stream(cpu));
    let is_one = |event| matches!(event, XenEvent::ContinueRunning { vcpu } if vcpu.dom == domid);
    records.filter(|record| is_one(record.typed())).count() as u64
}

#[test]
fn metrics_of_a_small_trace_are_those_of_xenalyze() {
    let traces = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/succeed/xentrace/live");
    let file = traces.join("net.bin");
    let windows = metrics(&transect(), &file, 999_999_000, 1).unwrap();
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
    for (domid, intervals, notifications) in INTERVALS_AND_NOTIFICATIONS {
        let domain = format!("dom{domid}");
        let of_domain: Vec<_> =
            windows.iter().filter(|row| value(row, "domain") == domain).collect();
        let sum = |name: &str| of_domain.iter().map(|row| number(row, name)).sum::<u64>();
        // None of the two ran when the trace began.
        assert_eq!(sum("executions") + continued(&file, domid), intervals, "{domain}");
        assert!(sum("io_count") >= notifications, "{domain}");
    }
}
