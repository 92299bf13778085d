//! Findings of live windows, of waits that were made on purpose: they name the cause, and their share is what the kernel's own
//! accounts of the same seconds say, within 5 points.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests report by failing")]

use crate::{
    host::loads::{Load, others},
    record_support::{Scratch, can_record_compact, groups::CpuGroup},
};
use serde_json::Value;
use std::{fs, time::Instant};

/// Shares of windows and of the kernel differ by less than this.
const POINTS: f64 = 0.05;

/// The findings of some windows of 1 s about this group by this rule, and all other rows.
fn found(scratch: &Scratch, detector: &str, group: &str) -> Vec<Value> {
    let top = scratch.run(&["top", "--log", "top.jsonl", "--windows", "4"]);
    assert!(top.status.success(), "{}", String::from_utf8_lossy(&top.stderr));
    let text = fs::read_to_string(scratch.path("top.jsonl")).unwrap();
    let rows = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    rows.filter(|row| {
        row["table"] == "findings" && row["detector"] == detector && row["cgroup"] == group
    })
    .collect()
}

/// The share of all windows together.
fn share(found: &[Value]) -> f64 {
    let sum = |column: &str| found.iter().map(|row| row[column].as_f64().unwrap()).sum::<f64>();
    sum("held_ns") / sum("of_ns")
}

#[track_caller]
fn agree(what: &str, share: f64, truth: f64) {
    println!("{what}: windows {:.1} %, by the kernel {:.1} %", share * 100.0, truth * 100.0);
    assert!((share - truth).abs() < POINTS, "{what}: {share} {truth}");
}

#[test]
fn a_starved_group_and_the_one_that_it_waits_for_are_named() {
    if !can_record_compact() {
        return;
    }
    let groups = [("meek", 100), ("greedy", 300)].map(|(name, w)| CpuGroup::with_weight(name, w));
    let [Some(meek), Some(greedy)] = &groups else {
        println!("skipped: no control group with a weight can be made here");
        return;
    };
    let _busy = others();
    let (a, b) = (Load::spinning(0), Load::spinning(0));
    meek.add(a.id());
    greedy.add(b.id());
    let scratch = Scratch::new();
    let before = a.accounts();
    let found = found(&scratch, "starved", &meek.path);
    let after = a.accounts();
    assert_eq!(found.len(), 4, "in every window: {found:?}");
    let (ran, waited) = ((after.0 - before.0) as f64, (after.1 - before.1) as f64);
    agree("starved", share(&found), waited / (ran + waited));
    for row in &found {
        let sentence = row["sentence"].as_str().unwrap();
        assert!(sentence.contains(&format!("behind {}", greedy.path)), "{sentence}");
    }
    assert!(found.iter().all(|row| row["confidence"] == "certain"), "{found:?}");
}

#[test]
fn a_group_whose_quota_ended_is_throttled_and_not_starved() {
    if !can_record_compact() {
        return;
    }
    let Some(group) = CpuGroup::with_quota("held", 30_000, 100_000) else {
        println!("skipped: no control group with a quota can be made here");
        return;
    };
    let a = Load::spinning(0);
    group.add(a.id());
    let scratch = Scratch::new();
    let (before, begin) = (group.throttled_ns(), Instant::now());
    let throttled = found(&scratch, "throttled", &group.path);
    let (after, passed) = (group.throttled_ns(), begin.elapsed().as_nanos() as f64);
    assert!(throttled.len() >= 3, "{throttled:?}");
    agree("throttled", share(&throttled), (after - before) as f64 / passed);
    let text = fs::read_to_string(scratch.path("top.jsonl")).unwrap();
    let starved = text.lines().filter(|line| line.contains("\"detector\":\"starved\""));
    // In the first window it is not known yet for how long the quota kept it.
    let starved = starved.filter(|line| line.contains("\"confidence\":\"certain\""));
    let own: Vec<&str> =
        starved.filter(|line| line.contains(&format!("\"cgroup\":\"{}\"", group.path))).collect();
    assert!(own.is_empty(), "{own:?}");
}
