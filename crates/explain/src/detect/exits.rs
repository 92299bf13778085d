//! Exits that take a vCPU's time, and polls for it while it is halted.

use super::{
    finding::{Confidence, Detail, Detector, Finding, Range},
    rules,
};
use crate::{
    blame::Party,
    parallel,
    piece::ThreadId,
    rows::{Exited, Lasts as _, Rows},
};
use rustc_hash::FxHashMap;
use transect_model::{
    exit::ExitReason,
    ids::{MachineId, VcpuId},
    state::VcpuState,
};

/// Exits of a vCPU's first seconds are those of a boot.
const BOOT_SECONDS: i64 = 10;

type VcpuOf = (MachineId, VcpuId);

pub(super) fn storms(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    let found = parallel::map(&rows.exits(), |(vcpu, exits)| storms_of(rows, range, *vcpu, exits));
    found.into_iter().flatten().collect()
}

fn storms_of(rows: &Rows<'_>, range: Range, vcpu: VcpuOf, exits: &[Exited]) -> Vec<Finding> {
    let booted = booted(rows, vcpu, range);
    let is_meant =
        |exit: &&Exited| range.has(exit.ts) && exit.ts >= booted && !exit.reason.is_halt();
    let mut all: FxHashMap<ExitReason, (u64, i64)> = FxHashMap::default();
    for exit in exits.iter().filter(is_meant) {
        let (count, handling) = all.entry(exit.reason).or_default();
        *count += 1;
        *handling += exit.handling_ns;
    }
    let on = on_cpu(rows, vcpu, range);
    all.retain(|_, (count, handling)| rules::is_exit_storm(*handling, on, *count, range));
    let found = all.into_iter().map(|(reason, (count, handling_ns))| {
        let alike = exits.iter().filter(is_meant).filter(|exit| exit.reason == reason);
        let most = most_common(alike.map(|exit| (exit.detail(), exit.rip)).collect());
        let (detail, rip) = most.unwrap_or_default();
        Finding {
            detector: Detector::ExitStorm,
            subject: Party::Vcpu(vcpu.0, vcpu.1),
            held_ns: handling_ns,
            of_ns: on,
            count,
            confidence: Confidence::Certain,
            detail: Detail::Exit { reason, detail, rip: Some(rip).filter(|rip| *rip != 0) },
        }
    });
    found.collect()
}

/// What comes most often; of several, the largest.
fn most_common<T: Ord + Copy>(mut all: Vec<T>) -> Option<T> {
    all.sort_unstable();
    let runs = all.chunk_by(|a, b| a == b);
    runs.max_by_key(|run| run.len())?.first().copied()
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
    let states = rows.vcpu_states_in(vcpu, range.from, range.until);
    states.filter(|row| is_on(row.state)).map(|row| range.of((row.ts, row.end()))).sum()
}

fn is_on(state: VcpuState) -> bool {
    !matches!(
        state,
        VcpuState::Halted
            | VcpuState::Blocked
            | VcpuState::Preempted
            | VcpuState::Waking
            | VcpuState::Offline
            | VcpuState::Unknown
    )
}

/// Polls for halted vCPUs that are in vain.
pub(super) fn polls(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    let of_vcpu = |(vcpu, _): &(VcpuOf, ThreadId)| polls_of(rows, *vcpu, range);
    parallel::map(&rows.vcpu_threads(), of_vcpu).into_iter().flatten().collect()
}

fn polls_of(rows: &Rows<'_>, vcpu: VcpuOf, range: Range) -> Option<Finding> {
    let (mut polled, mut failed, mut count, mut on) = (0, 0, 0, 0);
    // The poll of the exit that is open.
    let mut last = 0;
    for row in rows.vcpu_states_in(vcpu, range.from, range.until) {
        let ns = range.of((row.ts, row.end()));
        on += if is_on(row.state) { ns } else { 0 };
        match row.state {
            VcpuState::HaltPoll => {
                polled += ns;
                last = ns;
            }
            // The kernel's way from the poll to the sleep.
            VcpuState::Exit => {}
            VcpuState::Halted | VcpuState::Blocked => {
                failed += last;
                count += u64::from(last > 0);
                last = 0;
            }
            _ => last = 0,
        }
    }
    rules::is_in_vain(polled, failed, on, range).then_some(Finding {
        detector: Detector::HaltPoll,
        subject: Party::Vcpu(vcpu.0, vcpu.1),
        held_ns: failed,
        of_ns: on,
        count,
        confidence: Confidence::Certain,
        detail: Detail::None,
    })
}
