//! Who had the pCPU while a vCPU waited for it.

use super::{names::Names, selection::Selection};
use crate::lines::AntagonistLine;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use transect_model::ids::{MachineId, Tid, VcpuId};
use transect_model::state::Metric;
use transect_model::table::VcpuStateRow;

/// Who had the pCPU: threads of one name count as one, since people know workers by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Vcpu(MachineId, VcpuId),
    /// A domain, of which it is not told which vCPU it was.
    Machine(MachineId),
    Thread(MachineId, String),
    Idle,
    Unknown,
}

/// A vCPU and who had the CPU it waited for, by number.
type Wait = ((MachineId, VcpuId), Option<MachineId>, Option<Tid>);

/// The waits of each vCPU so far: for how long, and in how many stretches.
#[derive(Default)]
pub(crate) struct AntagonistSums {
    waits: BTreeMap<Wait, (i64, u64)>,
}

impl AntagonistSums {
    /// Adds a state, if it is a wait.
    pub(crate) fn state(&mut self, row: &VcpuStateRow) {
        if row.state.metric() == Metric::Waited {
            let key = ((row.machine_id, row.vcpu), row.by_machine_id, row.by_tid);
            let sum = self.waits.entry(key).or_default();
            sum.0 += row.dur;
            sum.1 += 1;
        }
    }

    /// One line per vCPU and antagonist; within a vCPU the longest wait first.
    pub(crate) fn lines(self, names: &Names<'_>, selection: &Selection) -> Vec<AntagonistLine> {
        let mut sums: BTreeMap<((MachineId, VcpuId), By), (i64, u64)> = BTreeMap::new();
        for ((victim, by_machine, by_tid), (waited_ns, count)) in self.waits {
            if selection.machine(victim.0) {
                let sum =
                    sums.entry((victim, by(victim.0, by_machine, by_tid, names))).or_default();
                sum.0 += waited_ns;
                sum.1 += count;
            }
        }
        let mut lines: Vec<AntagonistLine> = sums
            .into_iter()
            .map(|((victim, by), (waited_ns, count))| line(victim, by, waited_ns, count, names))
            .collect();
        lines.sort_by_key(|l| (l.machine_id, l.vcpu, Reverse(l.waited_ns)));
        lines
    }
}

fn by(
    victim: MachineId,
    by_machine: Option<MachineId>,
    by_tid: Option<Tid>,
    names: &Names<'_>,
) -> By {
    let Some(tid) = by_tid else {
        return by_machine.map_or(By::Unknown, By::Machine);
    };
    if tid == Tid::IDLE {
        return By::Idle;
    }
    let Some(host) = names.host_of(victim).or(by_machine) else {
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
        By::Machine(machine) => ("machine", Some(machine), None, None),
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
