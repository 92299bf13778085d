//! VMs that are scheduled for each request.

use super::{
    finding::{Confidence, Detail, Detector, Finding, Range},
    rules,
};
use crate::{blame::Party, rows::Rows};
use std::collections::BTreeMap;
use transect_model::{ids::MachineId, table::Tables};

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
        let wanted = sums.gotten + sums.waited;
        let per_run = rules::requests_per_run(sums.runs, sums.requests, sums.waited, wanted, range);
        if let Some(per_run) = per_run {
            found.push(Finding {
                detector: Detector::PingPong,
                subject: Party::Machine(machine),
                held_ns: sums.waited,
                of_ns: wanted,
                count: sums.runs,
                confidence: Confidence::Likely,
                detail: Detail::PerRun(per_run),
            });
        }
    }
    found
}
