//! Exits that take a vCPU's time, and polls for it while it is halted.

use super::{
    finding::{Confidence, Detail, Detector, Finding, Range},
    rules,
};
use crate::{
    alike::Tally,
    blame::{Level, Party, blame},
    rows::{Lasts as _, Rows},
    walk::each_wait,
};
use std::collections::BTreeMap;
use transect_model::{
    exit::ExitReason,
    ids::{MachineId, VcpuId},
    state::VcpuState,
    table::Tables,
};

/// Exits of a vCPU's first seconds are those of a boot.
const BOOT_SECONDS: i64 = 10;

type VcpuOf = (MachineId, VcpuId);

pub(super) fn find(rows: &Rows<'_>, tables: &Tables, range: Range) -> Vec<Finding> {
    let mut found = storms(rows, tables, range);
    found.extend(polls(rows, range));
    found
}

#[derive(Default)]
struct Storm {
    count: u64,
    handling: i64,
    /// By what the exit is about, and where it comes from.
    kinds: BTreeMap<(Option<u64>, u64), u64>,
}

fn storms(rows: &Rows<'_>, tables: &Tables, range: Range) -> Vec<Finding> {
    let mut all: BTreeMap<(VcpuOf, ExitReason), Storm> = BTreeMap::new();
    let mut boots: BTreeMap<VcpuOf, i64> = BTreeMap::new();
    for exit in tables.exits.iter().filter(|exit| range.has(exit.ts)) {
        let vcpu = (exit.machine_id, exit.vcpu);
        let booted = *boots.entry(vcpu).or_insert_with(|| booted(rows, vcpu, range));
        if exit.reason.is_halt() || exit.ts < booted {
            continue;
        }
        let storm = all.entry((vcpu, exit.reason)).or_default();
        storm.count += 1;
        storm.handling += exit.handling_ns.unwrap_or(0);
        *storm.kinds.entry((exit.detail, exit.rip)).or_default() += 1;
    }
    let mut found = Vec::new();
    for ((vcpu, reason), storm) in all {
        let on = on_cpu(rows, vcpu, range);
        if !rules::is_exit_storm(storm.handling, on, storm.count, range) {
            continue;
        }
        let most = storm.kinds.into_iter().max_by_key(|(_, count)| *count);
        let ((detail, rip), _) = most.unwrap_or(((None, 0), 0));
        found.push(Finding {
            detector: Detector::ExitStorm,
            subject: Party::Vcpu(vcpu.0, vcpu.1),
            held_ns: storm.handling,
            of_ns: on,
            count: storm.count,
            confidence: Confidence::Certain,
            detail: Detail::Exit { reason, detail, rip: Some(rip).filter(|rip| *rip != 0) },
        });
    }
    found
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

fn polls(rows: &Rows<'_>, range: Range) -> Vec<Finding> {
    let mut found = Vec::new();
    // Who waits for CPUs on which vCPUs poll; made when the first one polls too much.
    let mut harm: Option<BTreeMap<Party, i64>> = None;
    for (vcpu, _) in rows.vcpu_threads() {
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
        let subject = Party::Vcpu(vcpu.0, vcpu.1);
        let harm = harm.get_or_insert_with(|| harmed(rows, range));
        if !rules::is_harmful(harm.get(&subject).copied().unwrap_or(0), polled) {
            continue;
        }
        found.push(Finding {
            detector: Detector::HaltPoll,
            subject,
            held_ns: failed,
            of_ns: on,
            count,
            confidence: Confidence::Certain,
            detail: Detail::None,
        });
    }
    found
}

/// How long others waited for each vCPU's CPU.
fn harmed(rows: &Rows<'_>, range: Range) -> BTreeMap<Party, i64> {
    let all = rows.threads().into_iter().filter(|thread| !rows.is_guest(thread.machine));
    let mut waits = Tally::default();
    for thread in all {
        each_wait(rows, thread, range.span(), &mut |piece| waits.add(piece));
    }
    let mut harm = BTreeMap::new();
    for line in blame(rows, &waits.finish(), Level::Thread) {
        *harm.entry(line.culprit).or_default() += line.ns;
    }
    harm
}
