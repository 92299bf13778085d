//! What `transect` says of a trace: it is imported, then asked in SQL.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::asked::{output, table};
use crate::csv;

/// XenMon's metrics of each domain in each second; the last may be shorter.
const WINDOWS: &str = "SELECT m.name AS domain, w.ts, w.dur, w.executions, w.gotten_ns, w.waited_ns, w.blocked_ns, \
                       w.offline_ns, w.unknown_ns, w.allocated_avg_ns, w.allocated_min_ns, w.allocated_max_ns, w.io_count, \
                       (SELECT coalesce(sum(count), 0) FROM lost) AS lost \
                       FROM windows w JOIN machines m ON m.machine_id = w.machine_id \
                       WHERE w.vcpu IS NULL AND w.cpu IS NULL AND w.cgroup IS NULL \
                       ORDER BY w.ts, m.name";

/// The columns of the answer.
pub const COLUMNS: [&str; 14] = [
    "domain",
    "ts",
    "dur",
    "executions",
    "gotten_ns",
    "waited_ns",
    "blocked_ns",
    "offline_ns",
    "unknown_ns",
    "allocated_avg_ns",
    "allocated_min_ns",
    "allocated_max_ns",
    "io_count",
    "lost",
];

/// Imports a trace and asks for its metrics: for each window of each domain the fields of [`COLUMNS`]. The server's domU
/// has the number `server_id`, and `dom1` for its name.
///
/// # Errors
/// If `transect` cannot read the trace, or answers something else than was asked.
pub fn metrics(
    transect: &Path,
    trace: &Path,
    tsc_hz: u64,
    server_id: u32,
) -> Result<Vec<Vec<String>>> {
    let scratch = tempfile::tempdir().context("no temporary folder")?;
    let recording = scratch.path().join("run.transect");
    let mut import = Command::new(transect);
    import.arg("import").arg(trace).arg("-o").arg(&recording);
    import.args(["--cpu-hz", &tsc_hz.to_string(), "--domain", &format!("{server_id}=dom1")]);
    output(&mut import)?;
    let mut windows = Vec::new();
    for row in table(transect, &recording, WINDOWS)?.rows() {
        let fields = COLUMNS.iter().map(|column| row.text(column).map(str::to_owned));
        windows.push(fields.collect::<Result<Vec<_>>>()?);
    }
    ensure!(!windows.is_empty(), "no window in {}", trace.display());
    Ok(windows)
}

/// Lines of `windows.csv`.
pub(super) fn lines(key: &super::results::Key, windows: &[Vec<String>]) -> String {
    let with_key = |fields: &Vec<String>| csv::line(&[key.fields(), fields.clone()].concat());
    windows.iter().map(with_key).collect()
}
