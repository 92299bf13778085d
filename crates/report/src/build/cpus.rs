//! How each CPU of the machines that were recorded divided its time.

use super::{names::Names, selection::Selection};
use crate::lines::CpuLine;
use std::collections::BTreeMap;
use transect_model::ids::{CpuId, MachineId, Tid};
use transect_model::table::CpuSlice;

/// The sums of each CPU so far; names are filled in at the end.
#[derive(Default)]
pub(crate) struct CpuSums {
    lines: BTreeMap<(MachineId, CpuId), CpuLine>,
}

impl CpuSums {
    /// Adds a slice.
    pub(crate) fn slice(&mut self, row: &CpuSlice) {
        let line = self.lines.entry((row.machine_id, row.cpu)).or_insert_with(|| CpuLine {
            machine_id: row.machine_id,
            machine: String::new(),
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

    /// One line per CPU, in the order of machine and CPU numbers.
    pub(crate) fn lines(self, names: &Names<'_>, selection: &Selection) -> Vec<CpuLine> {
        let selected = self.lines.into_values().filter(|l| selection.machine(l.machine_id));
        selected.map(|l| CpuLine { machine: names.machine(l.machine_id), ..l }).collect()
    }
}

fn add(line: &mut CpuLine, row: &CpuSlice) {
    line.window_ns += row.dur;
    let part = match (row.vcpu, row.tid) {
        // Under Xen no thread runs them.
        (Some(_), _) => &mut line.vcpu_ns,
        (None, None) => &mut line.unknown_ns,
        (None, Some(Tid::IDLE)) => &mut line.idle_ns,
        (None, Some(_)) => &mut line.thread_ns,
    };
    *part += row.dur;
    let is_busy = row.vcpu.is_some() || row.tid.is_some_and(|tid| !tid.is_idle());
    line.slices += u64::from(is_busy);
}
