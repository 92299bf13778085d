//! Inside a nested KVM host: where trace-cmd can record, and where VMs really exit.
//!
//! One host is booted for all of it and this program carried into it. Its CPU is emulated: times
//! there are no machine's, their ratios are those of instructions executed.

use super::{
    bytes,
    cost::{self, Costs},
};
use crate::{
    bed::{Bed, told},
    report::{Goal, Rows},
};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use transect_testbed::KvmHost;

pub(super) const ROWS: &[&str] = &[
    "nested/getppid/trace-cmd",
    "nested/eventfd/trace-cmd",
    "nested/getppid/ftrace",
    "nested/eventfd/ftrace",
    "bytes/nested/raw",
    "bytes/nested/zstd",
];

pub(super) fn run(bed: &Bed, rows: &mut Rows) -> Result<()> {
    let host = KvmHost::nested().context("the nested host")?;
    for program in [&bed.bench, &bed.transect] {
        let name =
            program.file_name().and_then(|name| name.to_str()).context("a program's name")?;
        host.put(program, name)?;
    }
    if rows.wants_any(&ROWS[..4]) {
        for load in ["getppid", "eventfd"] {
            compare(bed, &host, load, rows)?;
        }
    }
    if rows.wants_any(&ROWS[4..]) {
        sizes(bed, &host, rows)?;
    }
    Ok(())
}

/// A role of this program, inside.
pub(super) fn inside(host: &KvmHost, role: &str, seconds: u64) -> Result<String> {
    let program = Path::new(&host.scratch()).join("ratios");
    let command = format!(
        "TRANSECT_CACHE={}/cache {} role {role}",
        host.scratch().display(),
        program.display()
    );
    let output = host.run(&command).within(seconds)?;
    ensure!(output.code == 0, "inside: {role}: {}", output.stderr.trim());
    Ok(output.stdout)
}

fn compare(bed: &Bed, host: &KvmHost, load: &str, rows: &mut Rows) -> Result<()> {
    let rounds = bed.rounds;
    let said = inside(host, &format!("costs {load} --rounds {rounds}"), 600)?;
    let costs: Costs = told(&said)?;
    let row = |name: &str, peer: &'static str, goal| cost::paid_row(name, &costs, peer, goal);
    let goal = Some(Goal::RatioAtMost(0.6));
    rows.push(row(&format!("nested/{load}/trace-cmd"), "trace-cmd record", goal));
    rows.push(row(&format!("nested/{load}/ftrace"), "ftrace splice (local)", None));
    Ok(())
}

fn sizes(bed: &Bed, host: &KvmHost, rows: &mut Rows) -> Result<()> {
    let web = host.guest("web").workload("periodic:period_ms=20:work_us=2000").boot()?;
    let mixed = host.guest("mixed").workload("mix:rounds=100000").boot()?;
    let seconds = if bed.quick { 2 } else { 8 };
    let said = inside(host, &format!("pair --events vm -- sleep {seconds}"), 120)?;
    bytes::show("nested", &told(&said)?, rows);
    web.kill()?;
    mixed.kill()?;
    Ok(())
}
