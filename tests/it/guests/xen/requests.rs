//! Block requests of a domain by stage, through blkback in dom0.
//!
//! The host and its domain come from Debian packages; skipped only where no Xen host can be booted at all.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "what was measured belongs in the log of a test run; a failed expectation is the report"
)]

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{collections::BTreeMap, path::Path};
use transect_e2e::{agent, number, table_rows, transect};
use transect_testbed::{
    XenHost,
    xen::{self, TscMode},
};

/// Columns of the stages that a domain's requests can have, in order.
const STAGES: [&str; 10] = [
    "issue_ts",
    "kick_ts",
    "pickup_ts",
    "host_submit_ts",
    "host_issue_ts",
    "host_complete_ts",
    "guest_irq_ts",
    "complete_ts",
    "wake_ts",
    "run_ts",
];

#[test]
fn block_requests_of_a_domain_are_told_by_stage() {
    if let Some(why) = xen::missing() {
        println!("skipped: {why}");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let recording = here.path().join("r.transect");
    record(&recording).unwrap();
    stages(&recording).unwrap();
}

fn record(to: &Path) -> Result<()> {
    let host = XenHost::boot()?;
    host.put(transect()?, "transect")?;
    let store = host.domu("store").pv().tsc_mode(TscMode::Native).network().disk_mib(64);
    let store = store.workload("disk:n=1000000");
    let store = store.agent(agent()?, &["--tcp", "0.0.0.0"]).boot()?;
    let address = store.address().context("no card")?;
    let record = format!(
        "./transect record --profile explain -o r.transect --duration 4s --guest name=store,tcp:{address}"
    );
    println!("{}", host.run(&record).within(900)?.ok()?.stderr);
    host.get("r.transect", to)
}

fn stages(recording: &Path) -> Result<()> {
    let tables = table_rows(recording)?;
    let of = |table: &'static str| tables.iter().filter(move |row| row["table"] == table);
    let store = of("machines").find(|row| row["name"] == "store").context("no machine store")?;
    let store = number(store, "machine_id")?;
    let ended = |row: &&Value| row["machine_id"] == store && row["dur"].is_i64();
    let rows: Vec<&Value> = of("io_requests").filter(ended).collect();
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for row in &rows {
        *missing.entry(row["missing"].as_str().context("missing")?).or_default() += 1;
        in_order(row)?;
    }
    println!("{} requests; missing {missing:?}", rows.len());
    ensure!(rows.len() > 50, "{} requests", rows.len());
    // What Xen does for an event channel's interrupt is not recorded.
    let whole = missing.get("signal,inject").copied().unwrap_or(0);
    ensure!(whole * 100 >= rows.len() * 99, "{whole} of {} have all stages but those", rows.len());
    let mut threads = of("threads").filter(|row| row["machine_id"] != store);
    let served =
        threads.find(|row| row["name"].as_str().is_some_and(|name| name.contains(".xvda-")));
    let served = &served.context("no thread of blkback")?["tid"];
    let others =
        rows.iter().filter(|row| row["backend_tid"].is_i64() && row["backend_tid"] != *served);
    ensure!(others.count() == 0, "other threads than {served} serve the disk");
    Ok(())
}

/// Are the stages that are known in order, and all of the row's length?
fn in_order(row: &Value) -> Result<()> {
    let mut last = number(row, "ts")?;
    for column in STAGES {
        let Some(ts) = row[column].as_i64() else { continue };
        ensure!(ts >= last, "{column} is not in order: {row}");
        last = ts;
    }
    ensure!(last == number(row, "ts")? + number(row, "dur")?, "stages are not all of it: {row}");
    Ok(())
}
