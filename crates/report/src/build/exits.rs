//! Exits by reason.

use super::{names::Names, selection::Selection};
use crate::lines::ExitLine;
use crate::stats::Durations;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use transect_model::exit::ExitReason;
use transect_model::ids::MachineId;
use transect_model::table::Exit;

#[derive(Default)]
struct Group {
    count: u64,
    to_user: u64,
    unfinished: u64,
    durations_ns: Vec<i64>,
    handling_ns: Vec<i64>,
}

/// The exits of each VM and reason so far: their durations are kept, 16 bytes an exit, because
/// order statistics are exact.
#[derive(Default)]
pub(crate) struct ExitSums {
    groups: BTreeMap<(MachineId, ExitReason), Group>,
}

impl ExitSums {
    /// Adds an exit.
    pub(crate) fn exit(&mut self, row: &Exit) {
        add(self.groups.entry((row.machine_id, row.reason)).or_default(), row);
    }

    /// One line per VM and reason; within a VM the costliest handling first.
    pub(crate) fn lines(self, names: &Names<'_>, selection: &Selection) -> Vec<ExitLine> {
        let selected = self.groups.into_iter().filter(|((vm, _), _)| selection.machine(*vm));
        let mut lines: Vec<ExitLine> = selected
            .map(|((machine_id, reason), group)| line(machine_id, reason, group, names))
            .collect();
        lines.sort_by_key(|l| (l.machine_id, Reverse((l.handling_total_ns, l.count)), l.reason));
        lines
    }
}

fn add(group: &mut Group, row: &Exit) {
    group.count += 1;
    group.to_user += u64::from(row.to_user);
    group.unfinished += u64::from(row.dur.is_none());
    group.durations_ns.extend(row.dur);
    group.handling_ns.extend(row.handling_ns);
}

fn line(machine_id: MachineId, reason: ExitReason, group: Group, names: &Names<'_>) -> ExitLine {
    let whole = Durations::new(group.durations_ns);
    let handling = Durations::new(group.handling_ns);
    ExitLine {
        machine_id,
        machine: names.machine(machine_id),
        reason,
        count: group.count,
        to_user: group.to_user,
        unfinished: group.unfinished,
        total_ns: whole.total(),
        p50_ns: whole.quantile(50),
        p90_ns: whole.quantile(90),
        p99_ns: whole.quantile(99),
        max_ns: whole.max(),
        handling_total_ns: handling.total(),
        handling_p50_ns: handling.quantile(50),
        handling_p90_ns: handling.quantile(90),
        handling_p99_ns: handling.quantile(99),
        handling_max_ns: handling.max(),
    }
}
