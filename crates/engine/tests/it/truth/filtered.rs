//! Recordings without some of their events: filters of the collectors, and the choice of events.
//!
//! The filters follow `bpf/filter.bpf.h` and the programs beside it: an event passes if the current
//! thread passes; a switch, if one of its two threads passes; an event about another thread, also
//! if that thread passes.

use super::{
    damage::{Damaged, is_chosen, item_time},
    system::{CGROUP, Recording, Streams},
};
use transect_engine::{StreamItem, ThreadFilter};
use transect_model::{
    event::CoreEvent,
    ids::{MachineId, Tid},
};

/// Types of events that a recording lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventChoice {
    NoWakings,
    NoBirths,
    NoSwitches,
    NoEntries,
    NoExits,
    NoHaltEnds,
    NoKvm,
    NoIssues,
    OnlyWakings,
    OnlySwitches,
    OnlyKvm,
}

impl EventChoice {
    pub const ALL: [EventChoice; 11] = [
        EventChoice::NoWakings,
        EventChoice::NoBirths,
        EventChoice::NoSwitches,
        EventChoice::NoEntries,
        EventChoice::NoExits,
        EventChoice::NoHaltEnds,
        EventChoice::NoKvm,
        EventChoice::NoIssues,
        EventChoice::OnlyWakings,
        EventChoice::OnlySwitches,
        EventChoice::OnlyKvm,
    ];

    pub fn name(self) -> &'static str {
        match self {
            EventChoice::NoWakings => "no wakings",
            EventChoice::NoBirths => "no births",
            EventChoice::NoSwitches => "no switches",
            EventChoice::NoEntries => "no kvm_entry",
            EventChoice::NoExits => "no kvm_exit",
            EventChoice::NoHaltEnds => "no kvm_vcpu_wakeup",
            EventChoice::NoKvm => "no kvm",
            EventChoice::NoIssues => "no block_rq_issue",
            EventChoice::OnlyWakings => "only wakings",
            EventChoice::OnlySwitches => "only switches",
            EventChoice::OnlyKvm => "only kvm",
        }
    }

    fn keeps(self, event: &CoreEvent) -> bool {
        let is_waking =
            matches!(event, CoreEvent::SchedWaking { .. } | CoreEvent::SchedWakeup { .. });
        let is_birth =
            matches!(event, CoreEvent::SchedFork { .. } | CoreEvent::SchedWakeupNew { .. });
        let is_kvm = matches!(
            event,
            CoreEvent::KvmEntry { .. }
                | CoreEvent::KvmExit { .. }
                | CoreEvent::KvmUserspaceExit { .. }
                | CoreEvent::KvmVcpuWakeup { .. }
                | CoreEvent::KvmHaltPollNs { .. }
                | CoreEvent::KvmPio { .. }
                | CoreEvent::KvmHypercall { .. }
        );
        let is_switch = matches!(event, CoreEvent::SchedSwitch { .. });
        match self {
            EventChoice::NoWakings => !is_waking,
            EventChoice::NoBirths => !is_birth,
            EventChoice::NoSwitches => !is_switch,
            EventChoice::NoEntries => !matches!(event, CoreEvent::KvmEntry { .. }),
            EventChoice::NoExits => !matches!(event, CoreEvent::KvmExit { .. }),
            EventChoice::NoHaltEnds => {
                !matches!(event, CoreEvent::KvmVcpuWakeup { .. } | CoreEvent::KvmHaltPollNs { .. })
            }
            EventChoice::NoKvm => !is_kvm,
            EventChoice::NoIssues => !matches!(event, CoreEvent::BlockIssue { .. }),
            EventChoice::OnlyWakings => is_waking,
            // Where a waiting thread is queued is known if migrations are recorded, or taken to be where it was.
            EventChoice::OnlySwitches => {
                is_switch || matches!(event, CoreEvent::SchedMigrate { .. })
            }
            EventChoice::OnlyKvm => is_kvm,
        }
    }
}

pub fn apply_choice(streams: &mut Streams, choice: EventChoice, scope: [bool; 2]) {
    for (_, items) in streams.iter_mut().filter(|(key, _)| is_chosen(key, scope)) {
        items.retain(|item| match item {
            StreamItem::Event { event, .. } => choice.keeps(event),
            _ => true,
        });
    }
}

/// Removes each VM exit that the next event of its CPU, an entry, ends within `ns`.
pub fn apply_min_exit(streams: &mut Streams, ns: i64) {
    for (_, items) in streams.iter_mut().filter(|(key, _)| is_chosen(key, [true, false])) {
        let mut kept: Vec<StreamItem> = Vec::new();
        for item in items.drain(..) {
            let is_end = match (kept.last(), &item) {
                (
                    Some(StreamItem::Event { ts, event: CoreEvent::KvmExit { .. }, .. }),
                    StreamItem::Event { ts: end, event: CoreEvent::KvmEntry { .. }, .. },
                ) => ((end.get() - ts.get()) as i64) < ns,
                _ => false,
            };
            if is_end {
                kept.pop();
            } else {
                kept.push(item);
            }
        }
        *items = kept;
    }
}

/// Removes the events of a machine that its thread filter rejects; none if no thread is chosen.
pub fn apply_thread_filter(
    recording: &Recording,
    machine: MachineId,
    tids: &[u8],
    pids: &[u8],
    cgroup: bool,
    damaged: &mut Damaged,
) -> Option<ThreadFilter> {
    let threads: Vec<_> =
        recording.topology.threads.iter().filter(|t| t.machine == machine).collect();
    if threads.is_empty() || (tids.is_empty() && pids.is_empty() && !cgroup) {
        return None;
    }
    let chosen = |at: &u8| threads[usize::from(*at) % threads.len()];
    let filter = ThreadFilter {
        tids: tids.iter().map(|at| chosen(at).tid).collect(),
        pids: pids.iter().filter_map(|at| chosen(at).pid).collect(),
        cgroup: cgroup.then(|| CGROUP.into()),
        ..ThreadFilter::default()
    };
    let passes = |tid: Tid, ts: i64| {
        let life = recording.life(machine, tid, ts);
        filter.tids.contains(&tid)
            || life.is_some_and(|life| filter.pids.contains(&life.pid) || cgroup && life.cgroup)
    };
    for (_, items) in damaged.streams.iter_mut().filter(|(key, _)| key.machine == machine) {
        items.retain(|item| {
            let ts = item_time(item).unwrap_or_default();
            match item {
                StreamItem::Event { tid, event, .. } => match *event {
                    CoreEvent::SchedSwitch { prev, next, .. } => {
                        passes(prev, ts) || passes(next, ts)
                    }
                    CoreEvent::SchedWaking { tid: target, .. }
                    | CoreEvent::SchedWakeup { tid: target, .. }
                    | CoreEvent::SchedWakeupNew { tid: target, .. }
                    | CoreEvent::SchedMigrate { tid: target, .. } => {
                        passes(target, ts) || passes(*tid, ts)
                    }
                    _ => passes(*tid, ts),
                },
                StreamItem::Other { tid, .. } => passes(*tid, ts),
                StreamItem::Lost(_) => true,
            }
        });
    }
    Some(filter)
}
