//! Xen's domains: what their vCPUs did together, and XenMon's metrics of the whole recording.

use super::{names::Names, selection::Selection};
use crate::lines::{DomainLine, VcpuLine};
use std::collections::BTreeMap;
use transect_model::ids::MachineId;
use transect_model::state::DomainState;
use transect_model::table::{DomainStateRow, Tables, Window};

/// The sums of each domain so far; names are filled in at the end.
#[derive(Default)]
pub(crate) struct DomainSums {
    lines: BTreeMap<MachineId, DomainLine>,
}

impl DomainSums {
    /// Adds a state.
    pub(crate) fn state(&mut self, row: &DomainStateRow) {
        let line = self.lines.entry(row.machine_id).or_insert_with(|| empty(row.machine_id));
        line.window_ns += row.dur;
        let part = match row.state {
            DomainState::Blocked => &mut line.all_blocked_ns,
            DomainState::PartialRun => &mut line.partial_run_ns,
            DomainState::FullRun => &mut line.full_run_ns,
            DomainState::PartialContention => &mut line.partial_contention_ns,
            DomainState::ConcurrencyHazard => &mut line.concurrency_hazard_ns,
            DomainState::FullContention => &mut line.full_contention_ns,
            DomainState::Unknown => &mut line.unknown_ns,
        };
        *part += row.dur;
    }

    /// One line per domain, in the order of their numbers. `vms` has the times of their vCPUs.
    pub(crate) fn lines(
        mut self,
        tables: &Tables,
        vms: &[VcpuLine],
        names: &Names<'_>,
        selection: &Selection,
    ) -> Vec<DomainLine> {
        let whole = |row: &&Window| row.vcpu.is_none() && row.cpu.is_none() && row.cgroup.is_none();
        for row in tables.windows.iter().filter(whole) {
            if let Some(line) = self.lines.get_mut(&row.machine_id) {
                add(line, row);
            }
        }
        let selected = self.lines.into_values().filter(|l| selection.machine(l.machine_id));
        let mut lines: Vec<DomainLine> = selected.collect();
        for line in &mut lines {
            if let Some(vm) = vms.iter().find(|vm| vm.machine_id == line.machine_id) {
                line.gotten_ns = vm.gotten_ns;
                line.waited_ns = vm.waited_ns;
                line.blocked_ns = vm.blocked_ns;
            }
            line.machine = names.machine(line.machine_id);
            line.domid = names.domid(line.machine_id);
            line.allocated_avg_ns = line
                .allocated_avg_ns
                .map(|sum_ns| sum_ns / i64::try_from(line.allocations).unwrap_or(i64::MAX).max(1));
        }
        lines.sort_by_key(|line| (line.domid, line.machine_id));
        lines
    }
}

/// Adds what only windows tell; `allocated_avg_ns` holds the sum meanwhile.
fn add(line: &mut DomainLine, row: &Window) {
    line.executions += row.executions;
    line.io_count = line.io_count.saturating_add(row.io_count);
    line.allocations += row.allocations;
    if let (Some(avg_ns), Ok(count)) = (row.allocated_avg_ns, i64::try_from(row.allocations)) {
        let sum_ns = avg_ns.checked_mul(count).unwrap_or(0);
        line.allocated_avg_ns = Some(line.allocated_avg_ns.unwrap_or(0) + sum_ns);
    }
    let least = [line.allocated_min_ns, row.allocated_min_ns];
    line.allocated_min_ns = least.into_iter().flatten().min();
    line.allocated_max_ns = line.allocated_max_ns.max(row.allocated_max_ns);
}

fn empty(machine_id: MachineId) -> DomainLine {
    DomainLine {
        machine_id,
        machine: String::new(),
        domid: None,
        window_ns: 0,
        all_blocked_ns: 0,
        partial_run_ns: 0,
        full_run_ns: 0,
        partial_contention_ns: 0,
        concurrency_hazard_ns: 0,
        full_contention_ns: 0,
        unknown_ns: 0,
        executions: 0,
        gotten_ns: 0,
        waited_ns: 0,
        blocked_ns: 0,
        allocations: 0,
        allocated_avg_ns: None,
        allocated_min_ns: None,
        allocated_max_ns: None,
        io_count: 0,
    }
}
