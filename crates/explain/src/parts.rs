//! A path in a few parts: what the thread did itself, and who or what kept it.

use crate::{
    alike::{Alike, Kind},
    piece::{By, Doing, ThreadId, Why},
};
use std::collections::BTreeMap;
use transect_model::{
    cause::Evidence,
    exit::ExitReason,
    ids::{MachineId, VcpuId},
};

/// What took most of something, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Most<T> {
    /// What.
    pub what: T,
    /// How long.
    pub ns: i64,
}

/// One part of a path: all that the thread did in one way, or all that it waited for one other thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The other thread; none for what is not another's.
    pub other: Option<ThreadId>,
    /// What happened; for another thread, [`Doing::Running`] whatever it did.
    pub doing: Doing,
    /// The vCPU, for waits of one: the root's, or one that was to handle an interrupt for it.
    pub vcpu: Option<(MachineId, VcpuId)>,
    /// How long.
    pub ns: i64,
    /// In how many pieces.
    pub count: u64,
    /// Of another thread: how long it ran.
    pub ran_ns: i64,
    /// How long something waited for a CPU.
    pub waited_ns: i64,
    /// Of another thread: how long that slept until a timer.
    pub timer_ns: i64,
    /// Behind whom most of that time.
    pub behind: Option<Most<(Option<By>, Option<Why>)>>,
    /// The reason of most exits.
    pub reason: Option<Most<ExitReason>>,
    /// The weakest of the pieces.
    pub evidence: Evidence,
}

#[derive(Default)]
struct Longest {
    by: BTreeMap<(Option<By>, Option<Why>), i64>,
    reasons: BTreeMap<ExitReason, i64>,
}

/// The parts of a path, the longest first.
pub fn parts(pieces: &[Alike]) -> Vec<Part> {
    type Key = (Option<ThreadId>, Doing, Option<(MachineId, VcpuId)>);
    let mut all: BTreeMap<Key, (Part, Longest)> = BTreeMap::new();
    for alike in pieces {
        let piece = &alike.kind;
        let tid = piece.tid.filter(|_| !piece.is_own);
        let other = tid.map(|tid| ThreadId { machine: piece.machine, tid });
        let doing = if other.is_some() { Doing::Running } else { kind(piece) };
        let of_vcpu = doing == Doing::VcpuWait;
        let vcpu = piece.vcpu.filter(|_| of_vcpu).map(|vcpu| (piece.machine, vcpu));
        let part = Part {
            other,
            doing,
            vcpu,
            ns: 0,
            count: 0,
            ran_ns: 0,
            waited_ns: 0,
            timer_ns: 0,
            behind: None,
            reason: None,
            evidence: Evidence::Id,
        };
        let (part, longest) =
            all.entry((other, doing, vcpu)).or_insert_with(|| (part, Longest::default()));
        part.ns += alike.ns;
        part.count += alike.count;
        part.evidence = part.evidence.max(alike.evidence);
        match piece.doing {
            Doing::Running | Doing::Exit | Doing::User | Doing::Reclaim => part.ran_ns += alike.ns,
            Doing::Runnable | Doing::VcpuWait => part.waited_ns += alike.ns,
            Doing::Timer => part.timer_ns += alike.ns,
            _ => {}
        }
        if piece.by.is_some() || piece.why.is_some() {
            // A quota that has ended is nobody's doing.
            let by = piece.by.filter(|_| piece.why != Some(Why::Throttled));
            *longest.by.entry((by, piece.why)).or_default() += alike.ns;
        }
        if let Some(reason) = piece.reason {
            *longest.reasons.entry(reason).or_default() += alike.ns;
        }
    }
    let mut parts: Vec<Part> = all
        .into_values()
        .map(|(part, longest)| Part {
            behind: most(longest.by),
            reason: most(longest.reasons),
            ..part
        })
        .collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    parts
}

/// What is one thing to say.
fn kind(piece: &Kind) -> Doing {
    match piece.doing {
        Doing::Handler => Doing::Delivery,
        // Of the CPU that was to handle an interrupt for it.
        Doing::Exit | Doing::User | Doing::HaltPoll if !piece.is_own => Doing::Delivery,
        doing => doing,
    }
}

fn most<T: Copy + Ord>(all: BTreeMap<T, i64>) -> Option<Most<T>> {
    let most = all.into_iter().max_by_key(|(_, ns)| *ns);
    most.map(|(what, ns)| Most { what, ns })
}

#[cfg(test)]
mod tests {
    use super::parts;
    use crate::{
        alike::alike,
        piece::{Doing, Piece},
    };
    use transect_model::{
        cause::Evidence,
        ids::{MachineId, Tid, VcpuId},
    };

    /// An interrupt for the root that waits with another machine's vCPU is no wait of the root's own.
    #[test]
    fn waits_of_vcpus_are_told_apart() {
        let piece = |machine: u32, vcpu: u32, tid: Option<i32>, doing, dur| Piece {
            ts: 0,
            dur,
            depth: u32::from(tid.is_none()),
            machine: MachineId(machine),
            tid: tid.map(Tid),
            vcpu: Some(VcpuId(vcpu)),
            cpu: None,
            doing,
            reason: None,
            by: None,
            why: None,
            cause: None,
            evidence: Evidence::Id,
            error_ns: Some(0),
        };
        let all = parts(&alike(&[
            piece(1, 0, Some(7), Doing::VcpuWait, 5),
            piece(1, 1, Some(7), Doing::VcpuWait, 4),
            piece(2, 0, None, Doing::VcpuWait, 3),
            piece(1, 0, Some(7), Doing::Exit, 2),
            piece(2, 0, None, Doing::Exit, 1),
            piece(1, 0, Some(7), Doing::VcpuWait, 5),
        ]));
        let told: Vec<_> = all.iter().map(|part| (part.doing, part.vcpu, part.ns)).collect();
        let of = |machine, vcpu| Some((MachineId(machine), VcpuId(vcpu)));
        let wanted = [
            (Doing::VcpuWait, of(1, 0), 10),
            (Doing::VcpuWait, of(1, 1), 4),
            (Doing::VcpuWait, of(2, 0), 3),
            (Doing::Exit, None, 2),
            (Doing::Delivery, None, 1),
        ];
        assert_eq!(told, wanted);
    }
}
