//! Whom waits are charged to: who waited, for whom, and why.

use crate::{
    alike::{Alike, Kind},
    piece::{By, ThreadId, Why},
    rows::Rows,
};
use std::collections::{BTreeMap, BTreeSet};
use transect_model::{
    cause::Evidence,
    ids::{MachineId, VcpuId},
};

/// Whom to charge, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Threads and vCPUs.
    Thread,
    /// Control groups.
    Group,
    /// Machines: a VM for its vCPUs and all threads of its VMM.
    Machine,
}

impl Level {
    /// Every level.
    pub const ALL: [Level; 3] = [Level::Thread, Level::Group, Level::Machine];

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Thread => "thread",
            Level::Group => "cgroup",
            Level::Machine => "machine",
        }
    }
}

/// Who waits, or has the CPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    /// A thread that runs no vCPU.
    Thread(ThreadId),
    /// A vCPU.
    Vcpu(MachineId, VcpuId),
    /// A control group of a machine; its path.
    Group(MachineId, String),
    /// A machine.
    Machine(MachineId),
    /// Nobody: the CPU leaves its idle state.
    Idle,
    /// Nobody: its own quota or cap had ended.
    Quota,
    /// Not known.
    Unknown,
}

/// One line of what waits cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blame {
    /// Who waited.
    pub victim: Party,
    /// Who had the CPU.
    pub culprit: Party,
    /// Why; none if it is not known who had it.
    pub why: Option<Why>,
    /// For how long, all together.
    pub ns: i64,
    /// In how many pieces.
    pub count: u64,
    /// The weakest of them.
    pub evidence: Evidence,
}

/// The waits of these pieces by who waited, for whom, and why; the longest first.
pub fn blame<'p>(
    rows: &Rows<'_>,
    pieces: impl IntoIterator<Item = &'p Alike>,
    level: Level,
) -> Vec<Blame> {
    type Key = (Party, Party, Option<Why>);
    let mut all: BTreeMap<Key, (i64, u64, Evidence)> = BTreeMap::new();
    for alike in pieces.into_iter().filter(|alike| alike.kind.doing.is_wait()) {
        let kind = &alike.kind;
        let key = (victim(rows, kind, level), culprit(rows, kind, level), kind.why);
        let (ns, count, evidence) = all.entry(key).or_insert((0, 0, Evidence::Id));
        *ns += alike.ns;
        *count += alike.count;
        *evidence = alike.evidence.max(*evidence);
    }
    let mut lines: Vec<Blame> = all
        .into_iter()
        .map(|((victim, culprit, why), (ns, count, evidence))| Blame {
            victim,
            culprit,
            why,
            ns,
            count,
            evidence,
        })
        .collect();
    lines.sort_by(|a, b| {
        b.ns.cmp(&a.ns).then_with(|| (&a.victim, &a.culprit).cmp(&(&b.victim, &b.culprit)))
    });
    lines
}

/// All whom pieces concern, at every level.
pub fn parties<'p>(
    rows: &Rows<'_>,
    pieces: impl IntoIterator<Item = &'p Alike>,
) -> BTreeSet<Party> {
    let mut all = BTreeSet::new();
    let mut threads = BTreeSet::new();
    for Alike { kind: piece, .. } in pieces {
        all.insert(Party::Machine(piece.machine));
        all.extend(piece.vcpu.map(|vcpu| Party::Vcpu(piece.machine, vcpu)));
        threads.extend(piece.tid.map(|tid| ThreadId { machine: piece.machine, tid }));
        let vcpu = piece.vcpu.and_then(|vcpu| rows.thread_of_vcpu((piece.machine, vcpu)));
        threads.extend(vcpu);
    }
    for thread in threads {
        all.insert(Party::Thread(thread));
        all.extend(Level::ALL.map(|level| party(rows, thread, level)));
    }
    all
}

fn victim(rows: &Rows<'_>, piece: &Kind, level: Level) -> Party {
    if let Some(vcpu) = piece.vcpu {
        let of = (piece.machine, vcpu);
        return match (level, rows.thread_of_vcpu(of)) {
            (Level::Thread, _) => Party::Vcpu(of.0, of.1),
            (Level::Group, Some(thread)) => group(rows, thread),
            (Level::Group | Level::Machine, _) => Party::Machine(of.0),
        };
    }
    let thread = piece.tid.map(|tid| ThreadId { machine: piece.machine, tid });
    thread.map_or(Party::Unknown, |thread| party(rows, thread, level))
}

fn culprit(rows: &Rows<'_>, piece: &Kind, level: Level) -> Party {
    if piece.why == Some(Why::Throttled) {
        return Party::Quota;
    }
    match (piece.by, level) {
        (Some(By::Thread(thread)), _) => party(rows, thread, level),
        (Some(By::Vcpu(machine, vcpu)), Level::Thread) => Party::Vcpu(machine, vcpu),
        (Some(By::Vcpu(machine, _)), _) => Party::Machine(machine),
        (Some(By::Idle), _) => Party::Idle,
        (None, _) => Party::Unknown,
    }
}

/// The thread as a party at the level.
pub(crate) fn party(rows: &Rows<'_>, thread: ThreadId, level: Level) -> Party {
    match (level, rows.vcpu_of_thread(thread)) {
        (Level::Thread, Some((machine, vcpu))) => Party::Vcpu(machine, vcpu),
        (Level::Thread, None) => Party::Thread(thread),
        (Level::Group, _) => group(rows, thread),
        (Level::Machine, Some((machine, _))) => Party::Machine(machine),
        (Level::Machine, None) => Party::Machine(rows.works_for(thread)),
    }
}

fn group(rows: &Rows<'_>, thread: ThreadId) -> Party {
    match rows.thread(thread).and_then(|row| row.cgroup.clone()) {
        Some(path) => Party::Group(thread.machine, path),
        None => Party::Machine(thread.machine),
    }
}
