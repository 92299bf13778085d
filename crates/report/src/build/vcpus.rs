//! Where each vCPU's time went, and each VM's as the sum of its vCPUs.

use super::{names::Names, selection::Selection};
use crate::lines::VcpuLine;
use std::collections::BTreeMap;
use transect_model::ids::{MachineId, VcpuId};
use transect_model::state::{Metric, VcpuState};
use transect_model::table::{Exit, Tables, VcpuStateRow};

/// The sums of each vCPU so far; names are filled in at the end.
#[derive(Default)]
pub(crate) struct VcpuSums {
    lines: BTreeMap<(MachineId, VcpuId), VcpuLine>,
}

impl VcpuSums {
    /// Adds a state.
    pub(crate) fn state(&mut self, row: &VcpuStateRow) {
        add_state(self.line(row.machine_id, row.vcpu), row.state, row.dur);
    }

    /// Counts an exit.
    pub(crate) fn exit(&mut self, row: &Exit) {
        self.line(row.machine_id, row.vcpu).exits += 1;
    }

    fn line(&mut self, machine: MachineId, vcpu: VcpuId) -> &mut VcpuLine {
        self.lines.entry((machine, vcpu)).or_insert_with(|| empty(machine, Some(vcpu)))
    }

    /// One line per vCPU, then the sums per VM, both in the order of their numbers.
    pub(crate) fn lines(
        mut self,
        tables: &Tables,
        names: &Names<'_>,
        selection: &Selection,
    ) -> (Vec<VcpuLine>, Vec<VcpuLine>) {
        for vcpu in &tables.vcpus {
            self.line(vcpu.machine_id, vcpu.vcpu);
        }
        for row in &tables.windows {
            let key = row.vcpu.map(|vcpu| (row.machine_id, vcpu));
            if let Some(line) = key.and_then(|key| self.lines.get_mut(&key)) {
                line.executions += row.executions;
            }
        }
        let selected = self.lines.into_values().filter(|l| selection.machine(l.machine_id));
        let mut vcpus: Vec<VcpuLine> = selected.collect();
        for line in &mut vcpus {
            line.machine = names.machine(line.machine_id);
            line.vmm_tid = line.vcpu.and_then(|vcpu| names.vmm_tid(line.machine_id, vcpu));
        }
        let vms = sums(&vcpus);
        (vcpus, vms)
    }
}

fn empty(machine_id: MachineId, vcpu: Option<VcpuId>) -> VcpuLine {
    VcpuLine {
        machine_id,
        machine: String::new(),
        vcpu,
        vmm_tid: None,
        window_ns: 0,
        gotten_ns: 0,
        waited_ns: 0,
        blocked_ns: 0,
        offline_ns: 0,
        unknown_ns: 0,
        guest_ns: 0,
        exit_ns: 0,
        user_ns: 0,
        halt_poll_ns: 0,
        hypercall_ns: 0,
        trap_ns: 0,
        running_ns: 0,
        halted_ns: 0,
        other_blocked_ns: 0,
        preempted_ns: 0,
        waking_ns: 0,
        executions: 0,
        exits: 0,
        steal_ns: 0,
    }
}

fn add_state(line: &mut VcpuLine, state: VcpuState, dur_ns: i64) {
    line.window_ns += dur_ns;
    if state.metric() == Metric::Waited {
        line.steal_ns += dur_ns;
    }
    *metric_of(line, state.metric()) += dur_ns;
    let part = match state {
        VcpuState::Guest => &mut line.guest_ns,
        VcpuState::Exit => &mut line.exit_ns,
        VcpuState::User => &mut line.user_ns,
        VcpuState::HaltPoll => &mut line.halt_poll_ns,
        VcpuState::Hypercall => &mut line.hypercall_ns,
        VcpuState::Trap => &mut line.trap_ns,
        VcpuState::Running => &mut line.running_ns,
        VcpuState::Halted => &mut line.halted_ns,
        VcpuState::Blocked => &mut line.other_blocked_ns,
        VcpuState::Preempted => &mut line.preempted_ns,
        VcpuState::Waking => &mut line.waking_ns,
        VcpuState::Offline | VcpuState::Unknown => return,
    };
    *part += dur_ns;
}

fn metric_of(line: &mut VcpuLine, metric: Metric) -> &mut i64 {
    match metric {
        Metric::Gotten => &mut line.gotten_ns,
        Metric::Waited => &mut line.waited_ns,
        Metric::Blocked => &mut line.blocked_ns,
        Metric::Offline => &mut line.offline_ns,
        Metric::Unknown => &mut line.unknown_ns,
    }
}

fn sums(vcpus: &[VcpuLine]) -> Vec<VcpuLine> {
    let mut vms: BTreeMap<MachineId, VcpuLine> = BTreeMap::new();
    for line in vcpus {
        let sum = vms.entry(line.machine_id).or_insert_with(|| empty(line.machine_id, None));
        sum.machine.clone_from(&line.machine);
        add_line(sum, line);
    }
    vms.into_values().collect()
}

fn add_line(sum: &mut VcpuLine, line: &VcpuLine) {
    sum.window_ns += line.window_ns;
    sum.gotten_ns += line.gotten_ns;
    sum.waited_ns += line.waited_ns;
    sum.blocked_ns += line.blocked_ns;
    sum.offline_ns += line.offline_ns;
    sum.unknown_ns += line.unknown_ns;
    sum.guest_ns += line.guest_ns;
    sum.exit_ns += line.exit_ns;
    sum.user_ns += line.user_ns;
    sum.halt_poll_ns += line.halt_poll_ns;
    sum.hypercall_ns += line.hypercall_ns;
    sum.trap_ns += line.trap_ns;
    sum.running_ns += line.running_ns;
    sum.halted_ns += line.halted_ns;
    sum.other_blocked_ns += line.other_blocked_ns;
    sum.preempted_ns += line.preempted_ns;
    sum.waking_ns += line.waking_ns;
    sum.executions += line.executions;
    sum.exits += line.exits;
    sum.steal_ns += line.steal_ns;
}
