//! Block requests by stage: a slow device, and what host and guest both keep in their caches; and what all that is
//! carried between a VM and its host shows.

use super::{
    carried::{Carried, LEAST_REQUESTS, between},
    finding::{Carries, Confidence, Detail, Detector, Finding, Range, reaches},
    waits::Waits,
};
use crate::{blame::Party, rows::Rows};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use transect_model::{
    cause::Evidence,
    event::BlockOp,
    ids::{BlockDevice, MachineId},
    table::{IoRequest, Tables},
};

/// A device that takes this share of the slowest hundredth, and this share of the range, is worth a word.
const DEVICE_PERCENT: i64 = 50;
const DEVICE_RANGE_PERCENT: i64 = 5;
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
    let recorded: BTreeSet<MachineId> =
        tables.io_requests.iter().map(|row| row.machine_id).collect();
    let mut found = Vec::new();
    for ((machine, device), group) in &groups {
        let host = rows.carrier(*machine);
        found.extend(slow_device((*machine, *device), group, host.is_some(), range));
        if let Some(host) = host {
            found.extend(carried((*machine, host), group).findings(rows, waits));
            if recorded.contains(&host) {
                found.extend(double_cache(*machine, group));
            }
        }
    }
    found
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

fn carried((machine, host): (MachineId, MachineId), group: &[&IoRequest]) -> Carried {
    let mut carried = Carried::new(machine, host, Carries::Requests);
    for row in group {
        let waits =
            between(row.kick_ts, row.pickup_ts) + between(row.host_complete_ts, row.signal_ts);
        carried.add(row.dur.unwrap_or(0), row.evidence);
        carried.waits_for(waits, row.backend_tid);
        carried.is_delivered(between(row.signal_ts, row.guest_irq_ts));
    }
    carried
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
