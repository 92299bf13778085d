//! Block requests by stage: a slow device, a slow VMM, and what host and guest both keep in their caches.

use super::{
    cpu::{other, subject},
    finding::{Confidence, Detail, Detector, Finding, Range, reaches},
    waits::Waits,
};
use crate::{
    blame::Party,
    piece::{Actor, ThreadId},
    rows::Rows,
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use transect_model::{
    cause::Evidence,
    event::BlockOp,
    ids::{BlockDevice, MachineId, Tid},
    table::{IoRequest, Tables},
};

/// Of fewer requests there is nothing to say.
const LEAST_REQUESTS: usize = 50;
/// A device that takes this share of the slowest hundredth, and this share of the range, is worth a word.
const DEVICE_PERCENT: i64 = 50;
const DEVICE_RANGE_PERCENT: i64 = 5;
/// Steps of the VMM that take this share of the requests' time.
const VMM_PERCENT: i64 = 30;
/// Reads of which this share needs no device of the host.
const CACHED_PERCENT: u64 = 80;

/// The requests of one machine to one device.
type Group<'t> = Vec<&'t IoRequest>;

pub(super) fn find(
    rows: &Rows<'_>,
    tables: &Tables,
    waits: &[Waits],
    range: Range,
) -> Vec<Finding> {
    let mut groups: BTreeMap<(MachineId, BlockDevice), Group<'_>> = BTreeMap::new();
    let ended = tables.io_requests.iter().filter(|row| row.dur.is_some() && range.has(row.ts));
    for row in ended {
        groups.entry((row.machine_id, row.device)).or_default().push(row);
    }
    groups.retain(|_, group| group.len() >= LEAST_REQUESTS);
    let seen: BTreeSet<MachineId> = groups.keys().map(|(machine, _)| *machine).collect();
    let hosts = tables.block_io.iter().map(|row| row.machine_id);
    let recorded: BTreeSet<MachineId> = hosts.chain(seen).collect();
    let mut found = Vec::new();
    for ((machine, device), group) in &groups {
        let host = rows.machine(*machine).and_then(|machine| machine.parent_id);
        found.extend(slow_device((*machine, *device), group, host.is_some(), range));
        if let Some(host) = host {
            found.extend(slow_vmm(rows, (*machine, host), group, waits));
            if recorded.contains(&host) {
                found.extend(double_cache(*machine, group));
            }
        }
    }
    found
}

/// From one event to the other, if both are known.
fn between(from: Option<i64>, to: Option<i64>) -> i64 {
    to.zip(from).map_or(0, |(to, from)| to - from)
}

/// In the device, and before that in its queue: of the host, if it is a VM's.
fn in_device(row: &IoRequest, is_of_vm: bool) -> (i64, i64) {
    if is_of_vm {
        let queue = between(row.host_submit_ts, row.host_issue_ts);
        return (between(row.host_issue_ts, row.host_complete_ts), queue);
    }
    (between(row.issue_ts, row.complete_ts), between(Some(row.ts), row.issue_ts))
}

fn total(group: &[&IoRequest]) -> i64 {
    group.iter().filter_map(|row| row.dur).sum()
}

/// A finding of requests that were joined by time alone is not certain.
fn confidence(group: &[&IoRequest]) -> Confidence {
    let by_order = group.iter().filter(|row| row.evidence == Some(Evidence::Order)).count();
    if by_order * 10 > group.len() { Confidence::Likely } else { Confidence::Certain }
}

fn slow_device(
    (machine, device): (MachineId, BlockDevice),
    group: &[&IoRequest],
    is_of_vm: bool,
    range: Range,
) -> Option<Finding> {
    let mut slowest = group.to_vec();
    slowest.sort_by_key(|row| (Reverse(row.dur), row.ts));
    slowest.truncate(group.len().div_ceil(100));
    let sum = |group: &[&IoRequest]| {
        let parts = group.iter().map(|row| in_device(row, is_of_vm));
        parts.fold((0, 0), |all, part| (all.0 + part.0, all.1 + part.1))
    };
    let (of_slowest, queued) = sum(&slowest);
    let (held_ns, _) = sum(group);
    // In a longer queue, it is the load that is too high.
    let is_it = reaches(of_slowest, DEVICE_PERCENT, total(&slowest))
        && queued < of_slowest
        && reaches(held_ns, DEVICE_RANGE_PERCENT, range.length());
    is_it.then(|| Finding {
        detector: Detector::SlowDevice,
        subject: Party::Machine(machine),
        held_ns,
        of_ns: total(group),
        count: group.len() as u64,
        confidence: confidence(group),
        detail: Detail::Device {
            device: group.iter().find_map(|row| row.host_device).unwrap_or(device),
            is_host: group.iter().any(|row| row.host_device.is_some()),
        },
    })
}

fn slow_vmm(
    rows: &Rows<'_>,
    (machine, host): (MachineId, MachineId),
    group: &[&IoRequest],
    waits: &[Waits],
) -> Option<Finding> {
    let held_ns: i64 = group
        .iter()
        .map(|row| {
            between(row.kick_ts, row.pickup_ts) + between(row.host_complete_ts, row.signal_ts)
        })
        .sum();
    let of_ns = total(group);
    if !reaches(held_ns, VMM_PERCENT, of_ns) {
        return None;
    }
    let mut back_ends: BTreeMap<Tid, u64> = BTreeMap::new();
    for tid in group.iter().filter_map(|row| row.backend_tid) {
        *back_ends.entry(tid).or_default() += 1;
    }
    let most = back_ends.into_iter().max_by_key(|(tid, count)| (*count, Reverse(*tid)));
    let holder = most.map(|(tid, _)| ThreadId { machine: host, tid });
    Some(Finding {
        detector: Detector::SlowVmm,
        subject: Party::Machine(machine),
        held_ns,
        of_ns,
        count: group.len() as u64,
        confidence: confidence(group),
        detail: Detail::Holder {
            holder,
            behind: holder.and_then(|holder| behind(rows, holder, waits)),
        },
    })
}

/// Who had the CPU for most of the time for which the thread waited for it.
fn behind(rows: &Rows<'_>, thread: ThreadId, waits: &[Waits]) -> Option<Party> {
    let of = waits.iter().find(|waits| waits.of == Actor::Thread(thread))?;
    let own = subject(rows, thread);
    let mut all: BTreeMap<Party, i64> = BTreeMap::new();
    for (alike, sum) in of.all.iter().filter(|(alike, _)| of.is_own(alike.doing)) {
        if let Some(who) = other(rows, alike.by, &own) {
            *all.entry(who).or_default() += sum.ns;
        }
    }
    all.into_iter().max_by_key(|(_, ns)| *ns).map(|(who, _)| who)
}

fn double_cache(machine: MachineId, group: &[&IoRequest]) -> Option<Finding> {
    // Of those whose answer was seen, so that the host's part would have been.
    let is_read = |row: &&&IoRequest| row.op == BlockOp::Read && row.signal_ts.is_some();
    let reads: Group<'_> = group.iter().filter(is_read).copied().collect();
    let cached: Group<'_> =
        reads.iter().filter(|row| row.host_submit_ts.is_none()).copied().collect();
    let is_it = reads.len() >= LEAST_REQUESTS
        && cached.len() as u64 * 100 >= reads.len() as u64 * CACHED_PERCENT;
    is_it.then(|| Finding {
        detector: Detector::DoubleCache,
        subject: Party::Machine(machine),
        held_ns: total(&cached),
        of_ns: total(&reads),
        count: cached.len() as u64,
        confidence: Confidence::Likely,
        detail: Detail::None,
    })
}
