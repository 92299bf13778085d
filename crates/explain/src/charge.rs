//! Why a thread waits while another has the CPU: the first reason that holds.

use crate::{
    group::groups_of,
    piece::{By, ThreadId, Why},
    rows::{Before, Lasts as _, Rows},
};
use transect_model::{
    cause::Evidence,
    ids::{CpuId, MachineId},
    setting::SchedPolicy,
    state::ThreadState,
    table::Thread,
};

/// Why `who` waits for the CPU from `from` to `to` while `by` has it, and how that is known. `idle` says how long the CPUs of the
/// machine were idle meanwhile, all together.
pub(crate) fn why(
    rows: &Rows<'_>,
    who: ThreadId,
    by: By,
    cpu: (MachineId, CpuId),
    (from, to): (i64, i64),
    idle: impl FnOnce() -> i64,
) -> (Why, Evidence) {
    let (waiting, having) = (rows.thread(who), thread_of(rows, by));
    // Real-time classes have none. On which groups' quotas a CPU's stretches are is not recorded: a thread whose groups have no
    // quota does not wait for one.
    let can_be_throttled = class(waiting) == 0;
    if can_be_throttled && rows.is_throttled(cpu, from, to) && rows.has_quota(who) != Some(false) {
        return (Why::Throttled, Evidence::Id);
    }
    if can_be_throttled && rows.has_used_its_quota(who, || whole_wait(rows, who, (from, to)), from)
    {
        return (Why::Throttled, Evidence::Order);
    }
    if by == By::Idle {
        return (Why::LeavingIdle, Evidence::Id);
    }
    if class(having) > class(waiting) {
        return (Why::Class, Evidence::Id);
    }
    let elsewhere = idle_elsewhere(rows, who, cpu, (from, to), idle());
    let why = match elsewhere {
        Some(Elsewhere::Open) => Why::Affinity,
        // Of those that are tied to one CPU, the weight decides first.
        _ if weight(rows, waiting, having) => Why::Weight,
        Some(Elsewhere::Closed) => Why::Affinity,
        None => Why::Share,
    };
    (why, Evidence::Id)
}

/// The wait of which this is a part.
fn whole_wait(rows: &Rows<'_>, who: ThreadId, (from, to): (i64, i64)) -> (i64, i64) {
    match rows.state(who, to) {
        Before::Row(row) if row.state == ThreadState::Runnable => (row.ts, row.end()),
        _ => (from, to),
    }
}

fn thread_of<'t>(rows: &Rows<'t>, by: By) -> Option<&'t Thread> {
    match by {
        By::Thread(id) => rows.thread(id),
        By::Vcpu(..) | By::Idle => None,
    }
}

/// Classes and real-time priorities in the order in which the scheduler takes them.
fn class(thread: Option<&Thread>) -> u32 {
    match thread.and_then(|thread| thread.policy.map(|policy| (policy, thread.rt_priority))) {
        Some((SchedPolicy::Deadline, _)) => 1000,
        Some((SchedPolicy::Fifo | SchedPolicy::Rr, priority)) => 100 + priority.unwrap_or(0),
        _ => 0,
    }
}

/// A CPU that was idle for at least half of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Elsewhere {
    /// The waiting thread may run there, as far as that is known.
    Open,
    /// It may not.
    Closed,
}

/// Was a CPU other than this one idle for at least half of the time? All CPUs of the machine were idle for so long.
pub(crate) fn idle_elsewhere(
    rows: &Rows<'_>,
    who: ThreadId,
    (machine, cpu): (MachineId, CpuId),
    (from, to): (i64, i64),
    idle: i64,
) -> Option<Elsewhere> {
    // On a busy machine no CPU has to be asked.
    if idle.saturating_mul(2) < to - from {
        return None;
    }
    let others = rows.cpus(machine).iter().filter(|other| **other != cpu);
    let is_idle =
        |other: &&CpuId| rows.idle((machine, **other), from, to).saturating_mul(2) >= to - from;
    let mut closed = None;
    for other in others.filter(is_idle) {
        match rows.may_run_on(who, *other) {
            Some(false) => closed = Some(Elsewhere::Closed),
            Some(true) | None => return Some(Elsewhere::Open),
        }
    }
    closed
}

/// Is the right of the waiting thread smaller, by its nice value or that of a group above it?
fn weight(rows: &Rows<'_>, waiting: Option<&Thread>, having: Option<&Thread>) -> bool {
    let Some((waiting, having)) = waiting.zip(having) else { return false };
    let (mut ours, mut theirs) = (groups(waiting), groups(having));
    // Where the two part, their groups compete; a thread without a group there, by its nice value.
    let parted = loop {
        match (ours.next(), theirs.next()) {
            (Some(ours), Some(theirs)) if ours == theirs => {}
            (ours, theirs) => break ours.zip(theirs),
        }
    };
    let weight_of = |path, of: &Thread| rows.group(of.machine_id, path)?.cpu_weight;
    let weights =
        parted.and_then(|(ours, theirs)| weight_of(ours, waiting).zip(weight_of(theirs, having)));
    match weights {
        Some((ours, theirs)) => ours < theirs,
        None => waiting.nice.zip(having.nice).is_some_and(|(ours, theirs)| ours > theirs),
    }
}

/// The control groups above a thread, from the top.
fn groups(thread: &Thread) -> impl Iterator<Item = &str> {
    thread.cgroup.as_deref().into_iter().flat_map(groups_of)
}
