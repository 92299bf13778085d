//! How each CPU of the machines that were recorded divided its time.

use super::{Names, Selection};
use crate::verbs::report::lines::CpuLine;
use std::collections::BTreeMap;
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_model::table::{CpuSlice, Tables};

/// One line per CPU, in the order of machine and CPU numbers.
pub(crate) fn cpus(tables: &Tables, names: &Names<'_>, selection: &Selection) -> Vec<CpuLine> {
    let mut lines: BTreeMap<(MachineId, CpuId), CpuLine> = BTreeMap::new();
    for row in tables.cpu_slices.iter().filter(|r| selection.machine(r.machine_id)) {
        let line = lines.entry((row.machine_id, row.cpu)).or_insert_with(|| CpuLine {
            machine_id: row.machine_id,
            machine: names.machine(row.machine_id),
            cpu: row.cpu,
            window_ns: 0,
            vcpu_ns: 0,
            thread_ns: 0,
            idle_ns: 0,
            unknown_ns: 0,
            slices: 0,
        });
        add(line, row);
    }
    lines.into_values().collect()
}

fn add(line: &mut CpuLine, row: &CpuSlice) {
    line.window_ns += row.dur;
    let part = match row.tid {
        None => &mut line.unknown_ns,
        Some(Tid::IDLE) => &mut line.idle_ns,
        Some(_) if row.vcpu.is_some() => &mut line.vcpu_ns,
        Some(_) => &mut line.thread_ns,
    };
    *part += row.dur;
    line.slices += u64::from(row.tid.is_some_and(|tid| !tid.is_idle()));
}
