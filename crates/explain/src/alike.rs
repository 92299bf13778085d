//! Pieces without their moments: what took the time, however often it changed.

use crate::piece::{By, Doing, Piece, Why, pair};
use hashbrown::HashTable;
use rustc_hash::FxHasher;
use std::hash::Hasher as _;
use transect_model::{
    cause::{CauseKind, Evidence},
    exit::ExitReason,
    ids::{MachineId, Tid, VcpuId},
};

/// In what pieces are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
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
    /// The cause that led here.
    pub cause: Option<CauseKind>,
}

/// All pieces that are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alike {
    /// In what.
    pub kind: Kind,
    /// How long, all together.
    pub ns: i64,
    /// How many.
    pub count: u64,
    /// The weakest of them.
    pub evidence: Evidence,
}

impl From<&Piece> for Kind {
    fn from(piece: &Piece) -> Self {
        Kind {
            is_own: piece.depth == 0,
            machine: piece.machine,
            tid: piece.tid,
            vcpu: piece.vcpu,
            doing: piece.doing,
            reason: piece.reason,
            by: piece.by,
            why: piece.why,
            cause: piece.cause,
        }
    }
}

impl Kind {
    /// Of what differs most often: a path has millions of pieces.
    fn number(&self) -> u64 {
        let tid = self.tid.map_or(0, |tid| tid.0.cast_unsigned());
        let reason = self.reason.map_or(0, |reason| reason.code);
        let vcpu = self.vcpu.map_or(0, |vcpu| vcpu.0);
        let mut hasher = FxHasher::default();
        hasher.write_u64(pair(self.machine.0, tid));
        hasher.write_u64(self.by.map_or(0, By::number));
        hasher.write_u64(pair(reason, vcpu << 8 | self.doing as u32));
        hasher.finish()
    }

    /// Is the thread kept by something, rather than at work itself, asleep until a timer, or nobody knows?
    pub fn is_kept(&self) -> bool {
        match self.doing {
            Doing::Running | Doing::Exit | Doing::User | Doing::HaltPoll => !self.is_own,
            Doing::Timer
            | Doing::Outside
            | Doing::Unrecorded
            | Doing::Offline
            | Doing::Asleep
            | Doing::Unknown => false,
            Doing::Runnable
            | Doing::VcpuWait
            | Doing::Handler
            | Doing::Delivery
            | Doing::Device
            | Doing::Reclaim
            | Doing::Lock => true,
        }
    }
}

/// Adds up pieces, whatever their order.
#[derive(Debug, Default)]
pub struct Tally(HashTable<Alike>);

impl Tally {
    /// Adds one.
    pub fn add(&mut self, piece: &Piece) {
        let kind = Kind::from(piece);
        let number = kind.number();
        if let Some(alike) = self.0.find_mut(number, |alike| alike.kind == kind) {
            alike.ns += piece.dur;
            alike.count += 1;
            alike.evidence = piece.evidence.max(alike.evidence);
            return;
        }
        let alike = Alike { kind, ns: piece.dur, count: 1, evidence: piece.evidence };
        self.0.insert_unique(number, alike, |alike| alike.kind.number());
    }

    /// What was added, in the order of its kinds.
    pub fn finish(self) -> Vec<Alike> {
        let mut all: Vec<Alike> = self.0.into_iter().collect();
        all.sort_unstable_by_key(|alike| alike.kind);
        all
    }
}

/// The pieces, added up.
pub fn alike<'p>(pieces: impl IntoIterator<Item = &'p Piece>) -> Vec<Alike> {
    let mut tally = Tally::default();
    pieces.into_iter().for_each(|piece| tally.add(piece));
    tally.finish()
}
