//! VMs that are scheduled for each request.

use super::finding::{Confidence, Detail, Detector, Finding, Range, reaches};
use crate::{blame::Party, rows::Rows};
use std::collections::BTreeMap;
use transect_model::{ids::MachineId, table::Tables};

/// Fewer requests than this in each run, times 100 (XenMon, Gupta and others 2005), and at least these: without requests there
/// is nothing to be scheduled for.
const MOST_PER_RUN: u64 = 140;
const LEAST_PER_RUN: u64 = 50;
const RUNS_PER_SECOND: u64 = 500;
/// Who waits for less than this share of the wanted time loses nothing.
const WAITED_PERCENT: i64 = 1;

#[derive(Default)]
struct Sums {
    runs: u64,
    requests: u64,
    gotten: i64,
    waited: i64,
}

pub(super) fn find(rows: &Rows<'_>, tables: &Tables, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<MachineId, Sums> = BTreeMap::new();
    let of_vm = tables.windows.iter().filter(|row| {
        row.vcpu.is_none()
            && row.cpu.is_none()
            && row.cgroup.is_none()
            && rows.is_guest(row.machine_id)
    });
    for row in of_vm.filter(|row| range.has(row.ts)) {
        let sums = all.entry(row.machine_id).or_default();
        sums.runs += row.executions;
        sums.requests += row.io_count;
        sums.gotten += row.gotten_ns;
        sums.waited += row.waited_ns;
    }
    let mut found = Vec::new();
    for (machine, sums) in all {
        let per_run = sums.requests.saturating_mul(100) / sums.runs.max(1);
        if (LEAST_PER_RUN..MOST_PER_RUN).contains(&per_run)
            && range.is_often(sums.runs, RUNS_PER_SECOND)
            && reaches(sums.waited, WAITED_PERCENT, sums.gotten + sums.waited)
        {
            found.push(Finding {
                detector: Detector::PingPong,
                subject: Party::Machine(machine),
                held_ns: sums.waited,
                of_ns: sums.gotten + sums.waited,
                count: sums.runs,
                confidence: Confidence::Likely,
                detail: Detail::PerRun(per_run),
            });
        }
    }
    found
}
