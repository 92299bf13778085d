//! LTTng's kernel tracer in a guest of `transect bench`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests report by failing"
)]

use crate::bench_support::{lines, of_kind, said, transect};
use serde_json::Value;

const LTTNG: &str = r#"
name = "lttng"
seed = 12

[machine]
memory_mib = 512
disk_mib = 128

[procedure]
looks = [2]
limit_s = 120

[[matrix]]
platforms = ["tcg"]
tracers = ["none", "lttng-kernel"]
workloads = ["micro/syscall"]

[workloads."micro/syscall"]
seconds = 0.02
batches = 5
"#;

/// Its modules are made for the guest's kernel, from packages.
#[test]
fn a_guest_is_traced_by_lttng_s_modules() {
    let folder = tempfile::tempdir().unwrap();
    let (plan, results) = (folder.path().join("plan.toml"), folder.path().join("results"));
    std::fs::write(&plan, LTTNG).unwrap();
    let at = results.to_str().unwrap();
    let planned = transect(&["bench", "plan", plan.to_str().unwrap(), "--json"]);
    let planned: Value = serde_json::from_slice(&planned.stdout).unwrap();
    if let Some(first) = planned["planned"]["refused"].as_array().unwrap().first() {
        println!("skipped: {first}");
        return;
    }
    let out = transect(&["bench", "run", plan.to_str().unwrap(), "-o", at]);
    assert!(out.status.success(), "{}", said(&out));
    let entries = lines(&results);
    let traced: Vec<&Value> =
        of_kind(&entries, "ended").filter(|run| run["tracer"] == "lttng-kernel").collect();
    assert_eq!(traced.len(), 2, "{traced:#?}");
    for run in traced {
        let cost = &run["outcome"]["measured"]["parts"][0]["result"]["tracer"];
        let number = |name: &str| cost[name].as_u64().unwrap_or_else(|| panic!("{name}: {run}"));
        // A system call is entered and left. What found no room was counted.
        assert!(number("events") + number("lost_events") > 1000, "{run}");
        assert!(number("bytes") > 4 * number("events"), "{run}");
    }
}
