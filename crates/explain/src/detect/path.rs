//! Findings of one root's path.

use super::finding::{Confidence, Detail, Detector, Finding, reaches};
use crate::{
    alike::Alike,
    blame::{Level, Party, party},
    piece::{Actor, By, ThreadId},
    rows::Rows,
    sums::{Layer, layers},
};
use std::collections::BTreeMap;
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::MachineId,
};

/// Below these shares of the window, in percent, the host has no part in it, and enough is known to say so.
const INNOCENT_PERCENT: i64 = 2;
const UNKNOWN_PERCENT: i64 = 5;
/// Threads of the root's own process wait for a CPU for this share of the time that it waits for them, and this of the window.
const HOLDER_PERCENT: i64 = 30;
const HOLDER_WINDOW_PERCENT: i64 = 5;

/// What the path of a thread through a window shows.
pub fn of_path(rows: &Rows<'_>, root: Actor, pieces: &[Alike]) -> Vec<Finding> {
    let length: i64 = pieces.iter().map(|alike| alike.ns).sum();
    let (subject, thread) = match root {
        Actor::Thread(thread) => (party(rows, thread, Level::Thread), Some(thread)),
        Actor::Vcpu(machine, vcpu) => (Party::Vcpu(machine, vcpu), None),
    };
    let holder = thread.and_then(|thread| holder(rows, thread, pieces, &subject, length));
    holder.into_iter().chain(innocent(rows, root.machine(), pieces, &subject, length)).collect()
}

fn holder(
    rows: &Rows<'_>,
    root: ThreadId,
    pieces: &[Alike],
    subject: &Party,
    length: i64,
) -> Option<Finding> {
    let pid = rows.thread(root).and_then(|row| row.pid)?;
    let is_sibling = |tid| {
        let of = ThreadId { machine: root.machine, tid };
        of != root && rows.thread(of).is_some_and(|row| row.pid == Some(pid))
    };
    let (mut all, mut displaced, mut count) = (0, 0, 0);
    let mut holders: BTreeMap<ThreadId, i64> = BTreeMap::new();
    let mut behind: BTreeMap<Party, i64> = BTreeMap::new();
    for alike in pieces {
        let kind = &alike.kind;
        let of_sibling = kind.tid.filter(|tid| is_sibling(*tid));
        let Some(tid) = of_sibling.filter(|_| !kind.is_own && kind.machine == root.machine) else {
            continue;
        };
        if !matches!(kind.cause, Some(CauseKind::Wakeup | CauseKind::Lock)) {
            continue;
        }
        all += alike.ns;
        if kind.doing.is_wait() {
            displaced += alike.ns;
            count += alike.count;
            *holders.entry(ThreadId { machine: root.machine, tid }).or_default() += alike.ns;
            if let Some(By::Thread(by)) = kind.by {
                *behind.entry(party(rows, by, Level::Thread)).or_default() += alike.ns;
            }
        }
    }
    let is_it = reaches(displaced, HOLDER_PERCENT, all)
        && reaches(displaced, HOLDER_WINDOW_PERCENT, length);
    is_it.then(|| Finding {
        detector: Detector::LockHolder,
        subject: subject.clone(),
        held_ns: displaced,
        of_ns: length,
        count,
        confidence: Confidence::Likely,
        detail: Detail::Holder {
            holder: holders.into_iter().max_by_key(|(_, ns)| *ns).map(|(holder, _)| holder),
            behind: behind.into_iter().max_by_key(|(_, ns)| *ns).map(|(by, _)| by),
        },
    })
}

fn innocent(
    rows: &Rows<'_>,
    machine: MachineId,
    pieces: &[Alike],
    subject: &Party,
    length: i64,
) -> Option<Finding> {
    if !rows.is_guest(machine) {
        return None;
    }
    let by_layer = layers(rows, pieces);
    let in_layer = |layer| by_layer.iter().find(|(of, _)| *of == layer).map_or(0, |(_, ns)| *ns);
    let (host, unknown) = (in_layer(Layer::Host), in_layer(Layer::Unknown));
    if length == 0
        || reaches(host, INNOCENT_PERCENT, length)
        || reaches(unknown, UNKNOWN_PERCENT, length)
    {
        return None;
    }
    let weakest = pieces.iter().map(|alike| alike.evidence).max().unwrap_or(Evidence::Id);
    Some(Finding {
        detector: Detector::HostInnocent,
        subject: subject.clone(),
        held_ns: host,
        of_ns: length,
        count: 0,
        confidence: match weakest {
            Evidence::Id | Evidence::Context => Confidence::Certain,
            Evidence::Order => Confidence::Likely,
        },
        detail: Detail::None,
    })
}
