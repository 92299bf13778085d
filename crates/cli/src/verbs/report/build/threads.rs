//! Threads: what their own kernel saw, and for guest threads what really happened meanwhile.

use super::{Names, Selection};
use crate::verbs::report::lines::ThreadLine;
use std::cmp::Reverse;
use std::collections::HashMap;
use transect_model::ids::{MachineId, Tid};
use transect_model::state::{EffectiveState, ThreadState};
use transect_model::table::{Tables, ThreadStateRow};

/// One line per thread that was seen; within a machine the longest running first.
pub(crate) fn threads(
    tables: &Tables,
    names: &Names<'_>,
    selection: &Selection,
) -> Vec<ThreadLine> {
    let mut lines: HashMap<(MachineId, Tid), ThreadLine> = HashMap::new();
    for row in &tables.thread_states {
        if row.tid.is_idle() || !selection.machine(row.machine_id) {
            continue;
        }
        let key = (row.machine_id, row.tid);
        add(lines.entry(key).or_insert_with(|| empty(names, key.0, key.1)), row);
    }
    let mut lines: Vec<ThreadLine> = lines.into_values().collect();
    lines.sort_by_key(|l| (l.machine_id, Reverse((l.running_ns, l.runnable_ns)), l.tid));
    lines
}

fn empty(names: &Names<'_>, machine_id: MachineId, tid: Tid) -> ThreadLine {
    let thread = names.thread(machine_id, tid);
    let vcpu = names.vcpu_of(machine_id, tid);
    let zero_in_guests = names.is_guest(machine_id).then_some(0);
    ThreadLine {
        machine_id,
        machine: names.machine(machine_id),
        tid,
        pid: thread.and_then(|t| t.pid),
        name: names.thread_name(machine_id, tid),
        cgroup: thread.and_then(|t| t.cgroup.clone()),
        vcpu_machine_id: vcpu.map(|v| v.0),
        vcpu: vcpu.map(|v| v.1),
        running_ns: 0,
        runnable_ns: 0,
        blocked_ns: 0,
        unknown_ns: 0,
        effective_running_ns: zero_in_guests,
        vcpu_preempted_ns: zero_in_guests,
        exit_handling_ns: zero_in_guests,
        vcpu_halted_ns: zero_in_guests,
        effective_unknown_ns: zero_in_guests,
    }
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
