//! Locks whose owner has no CPU.

use super::finding::{Confidence, Detail, Detector, Finding, Range, reaches};
use crate::{
    blame::{Level, Party, party},
    piece::{Actor, By, ThreadId},
    rows::{Before, Rows},
    walk::each_piece,
};
use std::collections::BTreeMap;
use transect_model::{
    ids::{MachineId, VcpuId},
    state::VcpuState,
    table::Tables,
};

/// The owner waits for a CPU for this share of the waits for its locks.
const OWNER_PERCENT: i64 = 30;
/// Waits for locks of a machine below this share of the range do not matter.
const WAITS_PERCENT: i64 = 1;
/// Exits that pause, so many per second, and this share of them while another vCPU of the VM has no CPU.
const PAUSES_PER_SECOND: u64 = 100;
const SIBLING_PERCENT: i64 = 50;

#[derive(Default)]
struct Waits {
    all: i64,
    displaced: i64,
    count: u64,
    owners: BTreeMap<ThreadId, i64>,
    behind: BTreeMap<Party, i64>,
}

pub(super) fn find(rows: &Rows<'_>, tables: &Tables, range: Range) -> Vec<Finding> {
    let mut found = owners(rows, tables, range);
    // What is certain need not be guessed.
    let known: Vec<Party> = found.iter().map(|finding| finding.subject.clone()).collect();
    found.extend(pauses(rows, range).into_iter().filter(|f| !known.contains(&f.subject)));
    found
}

fn owners(rows: &Rows<'_>, tables: &Tables, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<MachineId, Waits> = BTreeMap::new();
    for lock in &tables.locks {
        let end = lock.ts.saturating_add(lock.dur.unwrap_or(0));
        let (from, until) = (lock.ts.max(range.from), end.min(range.until));
        if from >= until {
            continue;
        }
        let waits = all.entry(lock.machine_id).or_default();
        waits.all += until - from;
        let Some(tid) = lock.owner_tid.filter(|owner| *owner != lock.tid) else { continue };
        let owner = ThreadId { machine: lock.machine_id, tid };
        let mut displaced = 0;
        each_piece(rows, Actor::Thread(owner), (from, until), &mut |piece| {
            if piece.doing.is_wait() && piece.depth == 0 {
                displaced += piece.dur;
                if let Some(By::Thread(by)) = piece.by {
                    *waits.behind.entry(party(rows, by, Level::Thread)).or_default() += piece.dur;
                }
            }
        });
        if displaced > 0 {
            waits.displaced += displaced;
            waits.count += 1;
            *waits.owners.entry(owner).or_default() += displaced;
        }
    }
    let is_it = |waits: &Waits| {
        reaches(waits.displaced, OWNER_PERCENT, waits.all)
            && reaches(waits.all, WAITS_PERCENT, range.length())
    };
    let all = all.into_iter().filter(|(_, waits)| is_it(waits));
    all.map(|(machine, waits)| Finding {
        detector: Detector::LockHolder,
        subject: Party::Machine(machine),
        held_ns: waits.displaced,
        of_ns: waits.all,
        count: waits.count,
        confidence: Confidence::Certain,
        detail: Detail::Holder {
            holder: waits.owners.into_iter().max_by_key(|(_, ns)| *ns).map(|(owner, _)| owner),
            behind: waits.behind.into_iter().max_by_key(|(_, ns)| *ns).map(|(by, _)| by),
        },
    })
    .collect()
}

/// Guests that spin or ask the hypervisor to run another vCPU, while one of their vCPUs has no CPU.
fn pauses(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    /// `KVM_HC_KICK_CPU` (include/uapi/linux/kvm_para.h).
    const KICK_CPU: Option<u64> = Some(5);
    let mut vcpus: BTreeMap<MachineId, Vec<VcpuId>> = BTreeMap::new();
    for ((machine, vcpu), _) in rows.vcpu_threads() {
        vcpus.entry(machine).or_default().push(vcpu);
    }
    let mut all: BTreeMap<MachineId, (u64, u64, i64)> = BTreeMap::new();
    for (of, of_vcpu) in rows.exits() {
        let siblings = vcpus.get(&of.0).map_or(&[][..], Vec::as_slice);
        for exit in of_vcpu.iter().filter(|exit| range.has(exit.ts)) {
            let is_kick = exit.reason.is_hypercall() && exit.detail() == KICK_CPU;
            if !exit.reason.is_pause() && !is_kick {
                continue;
            }
            let (count, displaced, ns) = all.entry(of.0).or_default();
            *count += 1;
            *ns += exit.handling_ns;
            *displaced += u64::from(sibling_waits(rows, siblings, of, exit.ts));
        }
    }
    let is_it = |count: u64, displaced: u64| {
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        range.is_often(count, PAUSES_PER_SECOND)
            && reaches(signed(displaced), SIBLING_PERCENT, signed(count))
    };
    let all = all.into_iter().filter(|(_, (count, displaced, _))| is_it(*count, *displaced));
    all.map(|(machine, (_, displaced, ns))| Finding {
        detector: Detector::LockHolder,
        subject: Party::Machine(machine),
        held_ns: ns,
        of_ns: range.length(),
        count: displaced,
        confidence: Confidence::Likely,
        detail: Detail::Holder { holder: None, behind: None },
    })
    .collect()
}

/// Does another vCPU of the VM wait for a CPU at the moment?
fn sibling_waits(rows: &Rows<'_>, vcpus: &[VcpuId], of: (MachineId, VcpuId), t: i64) -> bool {
    vcpus.iter().filter(|vcpu| **vcpu != of.1).any(|sibling| {
        let Before::Row(row) = rows.vcpu((of.0, *sibling), t.saturating_add(1)) else {
            return false;
        };
        matches!(row.state, VcpuState::Preempted | VcpuState::Waking)
    })
}
