//! Who had the pCPU while a vCPU waited for it.

use super::{Names, Selection};
use crate::verbs::report::lines::AntagonistLine;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use transect_model::ids::{MachineId, Tid, VcpuId};
use transect_model::state::Metric;
use transect_model::table::{Tables, VcpuStateRow};

/// Who had the pCPU: threads of one name count as one, since people know workers by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Vcpu(MachineId, VcpuId),
    Thread(MachineId, String),
    Idle,
    Unknown,
}

/// One line per vCPU and antagonist; within a vCPU the longest wait first.
pub(crate) fn antagonists(
    tables: &Tables,
    names: &Names<'_>,
    selection: &Selection,
) -> Vec<AntagonistLine> {
    let mut sums: BTreeMap<((MachineId, VcpuId), By), (i64, u64)> = BTreeMap::new();
    let waits = tables.vcpu_states.iter().filter(|r| r.state.metric() == Metric::Waited);
    for row in waits.filter(|r| selection.machine(r.machine_id)) {
        let sum = sums.entry(((row.machine_id, row.vcpu), by(row, names))).or_default();
        sum.0 += row.dur;
        sum.1 += 1;
    }
    let mut lines: Vec<AntagonistLine> = sums
        .into_iter()
        .map(|((victim, by), (waited_ns, count))| line(victim, by, waited_ns, count, names))
        .collect();
    lines.sort_by_key(|l| (l.machine_id, l.vcpu, Reverse(l.waited_ns)));
    lines
}

fn by(row: &VcpuStateRow, names: &Names<'_>) -> By {
    let Some(tid) = row.by_tid else {
        return By::Unknown;
    };
    if tid == Tid::IDLE {
        return By::Idle;
    }
    let Some(host) = names.host_of(row.machine_id).or(row.by_machine_id) else {
        return By::Unknown;
    };
    match names.vcpu_of(host, tid) {
        Some((machine, vcpu)) => By::Vcpu(machine, vcpu),
        None => By::Thread(host, names.thread_name(host, tid)),
    }
}

fn line(
    (machine_id, vcpu): (MachineId, VcpuId),
    by: By,
    waited_ns: i64,
    count: u64,
    names: &Names<'_>,
) -> AntagonistLine {
    let (by_kind, by_machine_id, by_vcpu, by_name) = match by {
        By::Vcpu(machine, vcpu) => {
            let host = names.host_of(machine);
            let tid = names.vmm_tid(machine, vcpu);
            let name = host.zip(tid).map(|(host, tid)| names.thread_name(host, tid));
            ("vcpu", Some(machine), Some(vcpu), name)
        }
        By::Thread(machine, name) => ("thread", Some(machine), None, Some(name)),
        By::Idle => ("idle", None, None, None),
        By::Unknown => ("unknown", None, None, None),
    };
    AntagonistLine {
        machine_id,
        machine: names.machine(machine_id),
        vcpu,
        by_kind: by_kind.to_owned(),
        by_machine_id,
        by_machine: by_machine_id.map(|id| names.machine(id)),
        by_vcpu,
        by_name,
        waited_ns,
        count,
    }
}
