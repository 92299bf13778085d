//! The comparison of a whole recording's rows with the simulated truth.

use super::{
    compare::{Contradiction, Outcome, check_tiles, span},
    system::{Recorded, Recording, TrueState, TrueVcpuState},
};
use transect_model::{
    event::CoreEvent,
    ids::{MachineId, Tid},
    state::{ThreadState, VcpuState},
    table::ThreadStateRow,
};

/// Differences between the rows of a whole recording and the truth.
pub fn untruths(recording: &Recording, outcome: &Outcome) -> Vec<Contradiction> {
    let mut found = check_tiles(&recording.topology, &recording.keys, outcome);
    if outcome.summary.contradictions > 0 {
        let rows = format!("{:?}", outcome.tables.import_log);
        found.push(Contradiction { kind: "the engine met contradictions".into(), rows });
    }
    for check in outcome.tables.clock_check.iter().filter(|check| check.outside > 0) {
        let kind = "guest events outside of guest mode".into();
        found.push(Contradiction { kind, rows: format!("{check:?}") });
    }
    for row in outcome.tables.thread_states.iter().filter(|r| r.state != ThreadState::Unknown) {
        let Some(states) = recording.truth.get(&(row.machine_id, row.tid)) else { continue };
        let (from, to) = (row.ts, row.ts + row.dur);
        for (at, (since, state)) in states.iter().enumerate() {
            let until = states.get(at + 1).map_or(i64::MAX, |next| next.0);
            if until <= from || *since >= to || since == &until {
                continue;
            }
            let is_true = match *state {
                TrueState::Running(cpu) => {
                    row.state == ThreadState::Running && row.cpu.is_none_or(|c| c.0 == cpu as u32)
                }
                TrueState::Runnable => row.state == ThreadState::Runnable,
                TrueState::Blocked(letter) => {
                    row.state == ThreadState::Blocked && row.reason.is_none_or(|r| r == letter)
                }
                TrueState::Gone => false,
            };
            if !is_true {
                let kind = format!("{} where {state:?} is true", row.state.as_str());
                found.push(Contradiction { kind, rows: format!("{row:?}, since {since}") });
            }
        }
    }
    found.extend(missing_states(recording, outcome));
    found.extend(vcpu_untruths(recording, outcome));
    found
}

/// Unknown states of the host's threads after their first event: nothing hides them.
fn missing_states(recording: &Recording, outcome: &Outcome) -> Vec<Contradiction> {
    let (_, end) = span(&outcome.summary);
    let mut found = Vec::new();
    for ((machine, tid), states) in recording.truth.iter().filter(|(key, _)| key.0.0 == 0) {
        let mine = |row: &&ThreadStateRow| {
            (row.machine_id, row.tid) == (*machine, *tid) && row.state != ThreadState::Unknown
        };
        let known: i64 = outcome.tables.thread_states.iter().filter(mine).map(|r| r.dur).sum();
        let lived = |(at, (since, state)): (usize, &(i64, TrueState))| {
            let until = states.get(at + 1).map_or(end, |next| next.0.min(end));
            let counts = *state != TrueState::Gone && *since > 0;
            if counts { until - (*since).min(end) } else { 0 }
        };
        let changes: i64 = states.iter().enumerate().map(lived).sum();
        if known < changes && !is_woken_in_doubt(recording, *machine, *tid) {
            let kind = "unknown after the first event".into();
            found.push(Contradiction { kind, rows: format!("thread {tid}: {known} of {changes}") });
        }
    }
    found
}

/// Was the thread woken to a CPU that no event before shows running another one? Nor is it known then
/// whether the thread slept before, unless its CPU was idle.
fn is_woken_in_doubt(recording: &Recording, machine: MachineId, tid: Tid) -> bool {
    let is_waking = |event: &Recorded| matches!(event.event, Some(CoreEvent::SchedWaking { .. }));
    // Without any waking, nothing shows that wakings are recorded.
    if !recording.events.iter().any(|event| event.key.machine == machine && is_waking(event)) {
        return true;
    }
    recording.events.iter().enumerate().any(|(at, woken)| {
        let Some(CoreEvent::SchedWaking { tid: target, target_cpu, .. }) = woken.event else {
            return false;
        };
        let shows_occupant = |event: &Recorded| {
            (event.key.machine, event.key.cpu) == (machine, target_cpu)
                && matches!(event.event, Some(CoreEvent::SchedSwitch { .. }))
        };
        woken.key.machine == machine
            && target == tid
            && !recording.events[..at].iter().any(shows_occupant)
    })
}

/// Rows of vCPUs that the truth contradicts. A late `kvm_exit` may count as guest mode.
fn vcpu_untruths(recording: &Recording, outcome: &Outcome) -> Vec<Contradiction> {
    let mut found = Vec::new();
    for row in outcome.tables.vcpu_states.iter().filter(|row| row.state != VcpuState::Unknown) {
        let Some(states) = recording.vcpu_truth.get(&(row.machine_id, row.vcpu)) else { continue };
        for (at, (since, state)) in states.iter().enumerate() {
            let until = states.get(at + 1).map_or(i64::MAX, |next| next.0);
            if until <= row.ts || *since >= row.ts + row.dur {
                continue;
            }
            let is_true = match state {
                TrueVcpuState::Guest => matches!(row.state, VcpuState::Guest | VcpuState::Running),
                TrueVcpuState::Left => {
                    matches!(row.state, VcpuState::Guest | VcpuState::Exit | VcpuState::Running)
                }
                TrueVcpuState::Exit => {
                    matches!(row.state, VcpuState::Exit | VcpuState::HaltPoll | VcpuState::Running)
                }
                TrueVcpuState::User => matches!(row.state, VcpuState::User | VcpuState::Running),
                TrueVcpuState::Runnable => {
                    matches!(row.state, VcpuState::Preempted | VcpuState::Waking)
                }
                TrueVcpuState::Halted => row.state == VcpuState::Halted,
                TrueVcpuState::Blocked => row.state == VcpuState::Blocked,
            };
            if !is_true {
                let kind = format!("vCPU {} where {state:?} is true", row.state.as_str());
                found.push(Contradiction { kind, rows: format!("{row:?}, since {since}") });
            }
        }
    }
    found
}
