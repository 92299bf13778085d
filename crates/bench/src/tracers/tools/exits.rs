//! Exits of guests, read off a recording: what the limiter wants to know of a guest whose host was recorded.

use crate::{Fault, protocol::Exits};
use std::{fs, path::Path, process::Command};

/// Exits, and the time that host and VMM took for them. Halts, polls for their end and preemptions are states of their own.
const QUERY: &str = "SELECT (SELECT count(*) FROM exits) AS count, \
     (SELECT count(DISTINCT machine_id * 65536 + vcpu) FROM exits) AS vcpus, \
     (SELECT max(ts + coalesce(dur, 0)) - min(ts) FROM exits) AS over_ns, \
     (SELECT sum(dur) FROM vcpu_states WHERE state IN ('exit', 'user', 'hypercall')) AS handled_ns";

/// `None`: exits were not recorded, or there were none.
pub(super) fn of(transect: &Path, recording: &Path) -> Result<Option<Exits>, Fault> {
    let manifest = fs::read_to_string(recording.join("manifest.json")).map_err(Fault::failed)?;
    if !manifest.contains("kvm_exit") {
        return Ok(None);
    }
    let output = Command::new(transect)
        .arg("sql")
        .arg(recording)
        .args([QUERY, "--json"])
        .output()
        .map_err(|error| Fault::failed(format!("cannot start transect sql: {error}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Fault::failed(format!("transect sql: {why}")));
    }
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(Fault::failed)?;
    Ok(in_rows(&rows))
}

fn in_rows(rows: &serde_json::Value) -> Option<Exits> {
    let number = |name: &str| rows[0][name].as_u64();
    let exits = Exits {
        count: number("count")?,
        handled_ns: number("handled_ns")?,
        vcpus: u32::try_from(number("vcpus")?).ok()?,
        over_ns: number("over_ns")?,
    };
    (exits.count > 0).then_some(exits)
}
