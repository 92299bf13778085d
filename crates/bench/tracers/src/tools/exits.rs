//! Exits of guests, read off a recording: what the limiter wants to know of a guest whose host was recorded.

use serde_json::Value;
use std::{fs, path::Path, process::Command};
use transect_bench_core::{Fault, protocol::Exits};

/// Exits, and the time that host and VMM took for them. Halts, polls for their end and preemptions are states of their own.
const QUERY: &str = "SELECT (SELECT count(*) FROM exits) AS count, \
     (SELECT count(DISTINCT machine_id * 65536 + vcpu) FROM exits) AS vcpus, \
     (SELECT max(ts + coalesce(dur, 0)) - min(ts) FROM exits) AS over_ns, \
     (SELECT sum(dur) FROM vcpu_states WHERE state IN ('exit', 'user', 'hypercall')) AS handled_ns";

/// `None`: exits were not recorded, or there were none.
pub(super) fn of(transect: &Path, recording: &Path) -> Result<Option<Exits>, Fault> {
    let manifest = fs::read_to_string(recording.join("manifest.json")).map_err(Fault::failed)?;
    let manifest = serde_json::from_str(&manifest).map_err(Fault::failed)?;
    if !may_have_exits(&manifest) {
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
    let rows: Value = serde_json::from_slice(&output.stdout).map_err(Fault::failed)?;
    Ok(in_rows(&rows))
}

/// There is a guest, exits were asked for, and anything was recorded at all. (docs/reference/record.md, "manifest.json")
fn may_have_exits(manifest: &Value) -> bool {
    let has = |list: &str, is_it: fn(&Value) -> bool| {
        manifest[list].as_array().is_some_and(|all| all.iter().any(is_it))
    };
    let is_exit = |event: &Value| event.as_str().is_some_and(|name| name.contains("kvm_exit"));
    has("machines", |machine| machine["kind"] == "guest")
        && has("events", is_exit)
        && manifest["cost"]["events"].as_u64().unwrap_or(0) > 0
}

fn in_rows(rows: &Value) -> Option<Exits> {
    let number = |name: &str| rows[0][name].as_u64();
    let exits = Exits {
        count: number("count")?,
        handled_ns: number("handled_ns")?,
        vcpus: u32::try_from(number("vcpus")?).ok()?,
        over_ns: number("over_ns")?,
    };
    (exits.count > 0).then_some(exits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_recording_of_guests_is_asked() {
        let manifest = |kind: &str, event: &str, events: u64| json!({"machines": [{"kind": "host"}, {"kind": kind}], "events": [event], "cost": {"events": events}});
        assert!(may_have_exits(&manifest("guest", "kvm:kvm_exit", 1)));
        assert!(!may_have_exits(&manifest("container", "kvm:kvm_exit", 1)));
        assert!(!may_have_exits(&manifest("guest", "sched:sched_switch", 1)));
        assert!(!may_have_exits(&manifest("guest", "kvm:kvm_exit", 0)));
        assert!(!may_have_exits(&json!({})));
    }

    #[test]
    fn no_exits_are_none() {
        let row = |count: u64| json!([{"count": count, "handled_ns": 7, "vcpus": 2, "over_ns": 9}]);
        assert_eq!(in_rows(&row(3)), Some(Exits { count: 3, handled_ns: 7, vcpus: 2, over_ns: 9 }));
        assert_eq!(in_rows(&row(0)), None);
        let nulls = json!([{"count": 3, "handled_ns": null, "vcpus": 2, "over_ns": 9}]);
        assert_eq!(in_rows(&nulls), None);
    }
}
