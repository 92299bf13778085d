//! Run-queue latency after wakeups.

use super::{names::Names, selection::Selection};
use crate::lines::WakeupLine;
use crate::stats::Durations;
use std::cmp::Reverse;
use std::collections::HashMap;
use transect_model::ids::{MachineId, Tid};
use transect_model::table::Wakeup;

/// The wakeups of each thread so far: those that never ran, and the waits of the others, 8 bytes
/// each, because order statistics are exact.
#[derive(Default)]
pub(crate) struct WakeupSums {
    groups: HashMap<(MachineId, Tid), (u64, Vec<i64>)>,
}

impl WakeupSums {
    /// Adds a wakeup.
    pub(crate) fn wakeup(&mut self, row: &Wakeup) {
        let group = self.groups.entry((row.machine_id, row.tid)).or_default();
        group.0 += u64::from(row.dur.is_none());
        group.1.extend(row.dur);
    }

    /// One line per thread that was woken; within a machine the longest total wait first.
    pub(crate) fn lines(self, names: &Names<'_>, selection: &Selection) -> Vec<WakeupLine> {
        let selected = self.groups.into_iter().filter(|((id, _), _)| selection.machine(*id));
        let mut lines: Vec<WakeupLine> =
            selected.map(|(key, (open, ns))| line(key, open, ns, names)).collect();
        lines.sort_by_key(|l| (l.machine_id, Reverse(l.total_ns), l.tid));
        lines
    }
}

fn line(
    (machine_id, tid): (MachineId, Tid),
    unfinished: u64,
    durations_ns: Vec<i64>,
    names: &Names<'_>,
) -> WakeupLine {
    let count = durations_ns.len() as u64 + unfinished;
    let waits = Durations::new(durations_ns);
    WakeupLine {
        machine_id,
        machine: names.machine(machine_id),
        tid,
        name: names.thread_name(machine_id, tid),
        count,
        unfinished,
        total_ns: waits.total(),
        p50_ns: waits.quantile(50),
        p99_ns: waits.quantile(99),
        max_ns: waits.max(),
    }
}
