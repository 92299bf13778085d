//! The pieces of a path, added up: what took the time, and in which layer.

use crate::{
    alike::{Alike, Kind},
    piece::{By, Doing, Why},
    rows::Rows,
};
use std::collections::BTreeMap;
use transect_model::{
    cause::Evidence,
    exit::ExitReason,
    ids::{MachineId, Tid, VcpuId},
};

/// The same by the same, in all pieces of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Is it the thread itself that is explained?
    pub is_own: bool,
    /// Where.
    pub machine: MachineId,
    /// The thread; none in an interrupt or device.
    pub tid: Option<Tid>,
    /// The vCPU, where one is concerned.
    pub vcpu: Option<VcpuId>,
    /// What.
    pub doing: Doing,
    /// Of which exit.
    pub reason: Option<ExitReason>,
    /// For whom it waits.
    pub by: Option<By>,
    /// Why.
    pub why: Option<Why>,
    /// How long.
    pub ns: i64,
    /// In how many pieces.
    pub count: u64,
    /// The weakest of them.
    pub evidence: Evidence,
}

type Key =
    (bool, MachineId, Option<Tid>, Option<VcpuId>, Doing, Option<u32>, Option<By>, Option<Why>);

/// What took the time of a path, the most first.
pub fn sums(pieces: &[Alike]) -> Vec<Sum> {
    let mut all: BTreeMap<Key, Sum> = BTreeMap::new();
    for alike in pieces {
        let Kind { is_own, machine, tid, vcpu, doing, reason, by, why, cause: _ } = alike.kind;
        // A quota that has ended is nobody's doing.
        let by = by.filter(|_| why != Some(Why::Throttled));
        let key = (is_own, machine, tid, vcpu, doing, reason.map(|reason| reason.code), by, why);
        let sum = all.entry(key).or_insert(Sum {
            is_own,
            machine,
            tid,
            vcpu,
            doing,
            reason,
            by,
            why,
            ns: 0,
            count: 0,
            evidence: Evidence::Id,
        });
        sum.ns += alike.ns;
        sum.count += alike.count;
        sum.evidence = sum.evidence.max(alike.evidence);
    }
    let mut lines: Vec<Sum> = all.into_values().collect();
    lines.sort_by_key(|sum| std::cmp::Reverse(sum.ns));
    lines
}

/// A layer of the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Layer {
    /// Kernels and threads of guests.
    Guest,
    /// The host: its threads, its kernel, its hypervisor; waits of vCPUs for its CPUs.
    Host,
    /// Devices.
    Device,
    /// Timers that were asked for.
    Timer,
    /// Outside of what is recorded.
    Outside,
    /// Asleep to the end of the range.
    Asleep,
    /// Not known.
    Unknown,
}

impl Layer {
    /// Every layer.
    pub const ALL: [Layer; 7] = [
        Layer::Guest,
        Layer::Host,
        Layer::Device,
        Layer::Timer,
        Layer::Outside,
        Layer::Asleep,
        Layer::Unknown,
    ];

    /// The word in tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Layer::Guest => "guest",
            Layer::Host => "host",
            Layer::Device => "device",
            Layer::Timer => "timer",
            Layer::Outside => "outside",
            Layer::Asleep => "asleep",
            Layer::Unknown => "unknown",
        }
    }

    /// That of a piece.
    pub fn of(rows: &Rows<'_>, piece: &Kind) -> Self {
        match piece.doing {
            Doing::Exit | Doing::User | Doing::HaltPoll | Doing::VcpuWait => Layer::Host,
            Doing::Device => Layer::Device,
            Doing::Timer => Layer::Timer,
            Doing::Outside | Doing::Offline => Layer::Outside,
            Doing::Asleep => Layer::Asleep,
            Doing::Unrecorded | Doing::Unknown => Layer::Unknown,
            // An interrupt for a guest is late because its vCPU does not run.
            Doing::Delivery if rows.is_guest(piece.machine) => Layer::Host,
            Doing::Running if piece.vcpu.is_some() => Layer::Guest,
            Doing::Running
            | Doing::Runnable
            | Doing::Handler
            | Doing::Delivery
            | Doing::Reclaim
            | Doing::Lock => match rows.is_guest(piece.machine) {
                true => Layer::Guest,
                false => Layer::Host,
            },
        }
    }
}

/// The time in each layer, in the order of [`Layer::ALL`].
pub fn layers(rows: &Rows<'_>, pieces: &[Alike]) -> [(Layer, i64); Layer::ALL.len()] {
    Layer::ALL.map(|layer| {
        let here = pieces.iter().filter(|alike| Layer::of(rows, &alike.kind) == layer);
        (layer, here.map(|alike| alike.ns).sum())
    })
}
