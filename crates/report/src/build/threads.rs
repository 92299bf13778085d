//! Threads: what their own kernel saw, and for guest threads what really happened meanwhile.

use super::{names::Names, selection::Selection};
use crate::lines::ThreadLine;
use std::cmp::Reverse;
use std::collections::HashMap;
use transect_model::ids::{MachineId, Tid};
use transect_model::state::{EffectiveState, ThreadState};
use transect_model::table::ThreadStateRow;

/// The sums of each thread so far; names are filled in at the end.
#[derive(Default)]
pub(crate) struct ThreadSums {
    lines: HashMap<(MachineId, Tid), ThreadLine>,
}

impl ThreadSums {
    /// Adds a state. The idle threads are no threads to report.
    pub(crate) fn state(&mut self, row: &ThreadStateRow) {
        if !row.tid.is_idle() {
            let (machine, tid) = (row.machine_id, row.tid);
            add(self.lines.entry((machine, tid)).or_insert_with(|| empty(machine, tid)), row);
        }
    }

    /// One line per thread that was seen; within a machine the longest running first.
    pub(crate) fn lines(self, names: &Names<'_>, selection: &Selection) -> Vec<ThreadLine> {
        let selected = self.lines.into_values().filter(|l| selection.machine(l.machine_id));
        let mut lines: Vec<ThreadLine> = selected.map(|line| named(line, names)).collect();
        lines.sort_by_key(|l| (l.machine_id, Reverse((l.running_ns, l.runnable_ns)), l.tid));
        lines
    }
}

fn empty(machine_id: MachineId, tid: Tid) -> ThreadLine {
    ThreadLine {
        machine_id,
        machine: String::new(),
        tid,
        pid: None,
        name: String::new(),
        cgroup: None,
        vcpu_machine_id: None,
        vcpu: None,
        running_ns: 0,
        runnable_ns: 0,
        blocked_ns: 0,
        unknown_ns: 0,
        effective_running_ns: None,
        vcpu_preempted_ns: None,
        exit_handling_ns: None,
        vcpu_halted_ns: None,
        effective_unknown_ns: None,
    }
}

fn named(mut line: ThreadLine, names: &Names<'_>) -> ThreadLine {
    let thread = names.thread(line.machine_id, line.tid);
    let vcpu = names.vcpu_of(line.machine_id, line.tid);
    line.machine = names.machine(line.machine_id);
    line.pid = thread.and_then(|t| t.pid);
    line.name = names.thread_name(line.machine_id, line.tid);
    line.cgroup = thread.and_then(|t| t.cgroup.clone());
    line.vcpu_machine_id = vcpu.map(|v| v.0);
    line.vcpu = vcpu.map(|v| v.1);
    if names.is_guest(line.machine_id) {
        for part in [
            &mut line.effective_running_ns,
            &mut line.vcpu_preempted_ns,
            &mut line.exit_handling_ns,
            &mut line.vcpu_halted_ns,
            &mut line.effective_unknown_ns,
        ] {
            part.get_or_insert(0);
        }
    }
    line
}

fn add(line: &mut ThreadLine, row: &ThreadStateRow) {
    let part = match row.state {
        ThreadState::Running => &mut line.running_ns,
        ThreadState::Runnable => &mut line.runnable_ns,
        ThreadState::Blocked => &mut line.blocked_ns,
        ThreadState::Unknown => &mut line.unknown_ns,
    };
    *part += row.dur;
    let Some(effective) = row.effective else {
        return;
    };
    let part = match effective {
        EffectiveState::Running => &mut line.effective_running_ns,
        EffectiveState::VcpuPreempted => &mut line.vcpu_preempted_ns,
        EffectiveState::ExitHandling => &mut line.exit_handling_ns,
        EffectiveState::VcpuHalted => &mut line.vcpu_halted_ns,
        EffectiveState::Unknown => &mut line.effective_unknown_ns,
    };
    *part.get_or_insert(0) += row.dur;
}
