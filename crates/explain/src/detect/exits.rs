//! Exits that take a vCPU's time, and polls for it while it is halted.

use super::{
    finding::{Confidence, Detail, Detector, Finding, Range},
    rules,
    waits::Behind,
};
use crate::{
    blame::Party,
    rows::{ExitKind, Exited, Exits, Lasts as _, Rows},
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use transect_model::{
    exit::ExitReason,
    ids::{MachineId, VcpuId},
    state::VcpuState,
};

/// Exits of a vCPU's first seconds are those of a boot.
const BOOT_SECONDS: i64 = 10;

type VcpuOf = (MachineId, VcpuId);

#[derive(Default)]
struct Storm {
    count: u64,
    handling: i64,
    /// What most of them are, and how many those are.
    most: Option<(u64, ExitKind)>,
}

pub(super) fn storms(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    let exits = rows.exits();
    let of_vcpus = exits.by_vcpu().into_iter();
    of_vcpus.flat_map(|(vcpu, of_vcpu)| storms_of(rows, range, vcpu, exits, of_vcpu)).collect()
}

fn storms_of(
    rows: &Rows<'_>,
    range: Range,
    vcpu: VcpuOf,
    exits: &Exits,
    of_vcpu: &[Exited],
) -> Vec<Finding> {
    let booted = booted(rows, vcpu, range);
    let mut kinds: FxHashMap<u32, (u64, i64)> = FxHashMap::default();
    for exit in of_vcpu.iter().filter(|exit| range.has(exit.ts) && exit.ts >= booted) {
        let (count, handling) = kinds.entry(exit.kind).or_default();
        *count += 1;
        *handling += exit.handling_ns;
    }
    let mut all: BTreeMap<ExitReason, Storm> = BTreeMap::new();
    for (kind, (count, handling)) in kinds {
        let kind = exits.kind(kind);
        let storm = all.entry(kind.reason).or_default();
        storm.count += count;
        storm.handling += handling;
        storm.most = storm.most.max(Some((count, kind)));
    }
    all.retain(|reason, _| !reason.is_halt());
    let on = on_cpu(rows, vcpu, range);
    all.retain(|_, storm| rules::is_exit_storm(storm.handling, on, storm.count, range));
    let found = all.into_iter().map(|(reason, storm)| {
        let (detail, rip) = storm.most.map_or((None, 0), |(_, kind)| (kind.detail, kind.rip));
        Finding {
            detector: Detector::ExitStorm,
            subject: Party::Vcpu(vcpu.0, vcpu.1),
            held_ns: storm.handling,
            of_ns: on,
            count: storm.count,
            confidence: Confidence::Certain,
            detail: Detail::Exit { reason, detail, rip: Some(rip).filter(|rip| *rip != 0) },
        }
    });
    found.collect()
}

/// When the vCPU has booted, as far as the rows tell: it was there from the start, or began in the range.
fn booted(rows: &Rows<'_>, vcpu: VcpuOf, range: Range) -> i64 {
    let mut states = rows.vcpu_states_in(vcpu, i64::MIN, range.until);
    let Some(first) = states.next().filter(|row| row.state == VcpuState::Offline) else {
        return i64::MIN;
    };
    let boot = range.second.unwrap_or(0).saturating_mul(BOOT_SECONDS);
    first.end().saturating_add(boot)
}

/// How long the vCPU had a CPU.
fn on_cpu(rows: &Rows<'_>, vcpu: VcpuOf, range: Range) -> i64 {
    let is_on = |state| {
        !matches!(
            state,
            VcpuState::Halted
                | VcpuState::Blocked
                | VcpuState::Preempted
                | VcpuState::Waking
                | VcpuState::Offline
                | VcpuState::Unknown
        )
    };
    let states = rows.vcpu_states_in(vcpu, range.from, range.until);
    states.filter(|row| is_on(row.state)).map(|row| range.of((row.ts, row.end()))).sum()
}

/// Polls for halted vCPUs that are in vain while others wait for those CPUs.
pub(super) fn polls(rows: &Rows<'_>, behind: &Behind, range: Range) -> Vec<Finding> {
    let mut found = Vec::new();
    for (vcpu, thread) in rows.vcpu_threads() {
        let (mut polled, mut failed, mut count) = (0, 0, 0);
        let mut states = rows.vcpu_states_in(vcpu, range.from, range.until).peekable();
        while let Some(row) = states.next() {
            if row.state == VcpuState::HaltPoll {
                let ns = range.of((row.ts, row.end()));
                polled += ns;
                count += 1;
                let next = states.peek().map(|next| next.state);
                if matches!(next, Some(VcpuState::Halted | VcpuState::Blocked)) {
                    failed += ns;
                }
            }
        }
        let on = on_cpu(rows, vcpu, range);
        if !rules::is_in_vain(polled, failed, on) {
            continue;
        }
        // It polls on the CPU of its thread.
        if !rules::is_harmful(behind.get(&thread).copied().unwrap_or(0), polled) {
            continue;
        }
        found.push(Finding {
            detector: Detector::HaltPoll,
            subject: Party::Vcpu(vcpu.0, vcpu.1),
            held_ns: failed,
            of_ns: on,
            count,
            confidence: Confidence::Certain,
            detail: Detail::None,
        });
    }
    found
}
