//! What is explained: roots, and whose waits are charged.

use crate::{
    alike::{Alike, Tally},
    parallel,
    parts::{Part, parts},
    piece::{Actor, Doing, Piece, ThreadId},
    rows::Rows,
    sums::{Layer, Sum, layers, sums},
    walk::{Walked, each_piece},
};
use std::collections::BTreeSet;
use transect_model::{
    syscall,
    table::{IoRequest, Packet, Syscall},
    time::{Span, Timestamp},
};

/// The system call that a root is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub nr: i64,
    /// What it returned.
    pub ret: Option<i64>,
}

impl Call {
    /// Its name.
    pub fn name(self) -> String {
        syscall::name(self.nr)
    }
}

/// The block request or packet that a root is.
#[derive(Clone, Debug)]
pub enum Carried {
    /// A block request.
    Request(Box<IoRequest>),
    /// A packet.
    Packet(Box<Packet>),
}

/// A root that was explained.
#[derive(Clone, Debug)]
pub struct Root {
    /// Who it is.
    pub actor: Actor,
    /// Its window.
    pub window: Span,
    /// The system call whose time the window is.
    pub call: Option<Call>,
    /// The block request or packet whose time the window is.
    pub carried: Option<Carried>,
    /// How much of the range lies before its machine was recorded; that is not in the window.
    pub not_recorded_ns: i64,
    /// How its path was found; [`Self::each_piece`] finds it again.
    pub walked: Walked,
    /// The pieces of its path, without their moments.
    pub pieces: Vec<Alike>,
    /// Its parts, the longest first.
    pub parts: Vec<Part>,
    /// What took the time in detail, the most first.
    pub sums: Vec<Sum>,
    /// The time in each layer.
    pub layers: [(Layer, i64); Layer::ALL.len()],
}

impl Root {
    /// Explains the window of a thread or vCPU.
    pub fn explain(rows: &Rows<'_>, actor: Actor, window: Span) -> Self {
        let mut tally = Tally::default();
        let span = (window.start.get(), window.end.get());
        let walked = each_piece(rows, actor, span, &mut |piece| tally.add(piece));
        let pieces = tally.finish();
        let (parts, sums, layers) = (parts(&pieces), sums(&pieces), layers(rows, &pieces));
        Root {
            actor,
            window,
            call: None,
            carried: None,
            not_recorded_ns: 0,
            walked,
            pieces,
            parts,
            sums,
            layers,
        }
    }

    /// Walks its path again: its pieces from the last one back.
    pub fn each_piece(&self, rows: &Rows<'_>, see: &mut dyn FnMut(&Piece)) {
        each_piece(rows, self.actor, (self.window.start.get(), self.window.end.get()), see);
    }

    /// Its path, in order of time. Of a long window that is much more than the root.
    pub fn path(&self, rows: &Rows<'_>) -> Vec<Piece> {
        let mut path = Vec::new();
        self.each_piece(rows, &mut |piece| path.push(*piece));
        path.reverse();
        path
    }

    /// Explains the part of the window in which it exists; none if that is nothing.
    pub fn in_life(rows: &Rows<'_>, actor: Actor, window: Span) -> Option<Self> {
        let (from, until) = rows.span(actor)?;
        let (from, until) = (from.max(window.start.get()), until.min(window.end.get()));
        let lived = Span { start: Timestamp::new(from), end: Timestamp::new(until) };
        let late = rows.recorded_from(actor).map_or(0, |from| from - window.start.get());
        (from < until)
            .then(|| Root { not_recorded_ns: late.max(0), ..Root::explain(rows, actor, lived) })
    }

    /// Explains each of them in the part of the window in which it exists, in order, on all CPUs.
    pub fn in_lives(rows: &Rows<'_>, actors: &[Actor], window: Span) -> Vec<Self> {
        let lives = parallel::map(actors, |actor| Root::in_life(rows, *actor, window));
        lives.into_iter().flatten().collect()
    }

    /// Explains each of these system calls that has returned, in order, on all CPUs.
    pub fn of_calls(rows: &Rows<'_>, calls: &[&Syscall]) -> Vec<Self> {
        parallel::map(calls, |call| Root::of_call(rows, call)).into_iter().flatten().collect()
    }

    /// Explains a system call, from its entry to its return; none of one that has not returned.
    pub fn of_call(rows: &Rows<'_>, row: &Syscall) -> Option<Self> {
        let end = row.ts.checked_add(row.dur.filter(|dur| *dur > 0)?)?;
        let window = Span { start: Timestamp::new(row.ts), end: Timestamp::new(end) };
        let actor = Actor::Thread(ThreadId { machine: row.machine_id, tid: row.tid });
        let call = Some(Call { nr: row.nr, ret: row.ret });
        Some(Root { call, ..Root::explain(rows, actor, window) })
    }

    /// Explains a block request, from its submission to its last known stage: the thread that its completion
    /// woke, or if it woke none the submitter. None of a request without a completion.
    pub fn of_request(rows: &Rows<'_>, row: &IoRequest) -> Option<Self> {
        let end = row.ts.checked_add(row.dur.filter(|dur| *dur > 0)?)?;
        let window = Span { start: Timestamp::new(row.ts), end: Timestamp::new(end) };
        let tid = row.wake_tid.unwrap_or(row.tid);
        let actor = Actor::Thread(ThreadId { machine: row.machine_id, tid });
        let carried = Some(Carried::Request(Box::new(row.clone())));
        Some(Root { carried, ..Root::explain(rows, actor, window) })
    }

    /// Explains a packet, from its first event to its last known stage: the thread that it woke. None of one that
    /// woke none.
    pub fn of_packet(rows: &Rows<'_>, row: &Packet) -> Option<Self> {
        let end = row.ts.checked_add(row.dur.filter(|dur| *dur > 0)?)?;
        let window = Span { start: Timestamp::new(row.ts), end: Timestamp::new(end) };
        let actor = Actor::Thread(ThreadId { machine: row.to_machine_id?, tid: row.wake_tid? });
        let carried = Some(Carried::Packet(Box::new(row.clone())));
        Some(Root { carried, ..Root::explain(rows, actor, window) })
    }

    /// How long it is.
    pub fn length(&self) -> i64 {
        self.window.end.get() - self.window.start.get()
    }

    /// How long something kept it, other than its own sleep.
    pub fn kept(&self) -> i64 {
        self.pieces.iter().filter(|alike| alike.kind.is_kept()).map(|alike| alike.ns).sum()
    }

    /// The time in one layer.
    pub fn in_layer(&self, layer: Layer) -> i64 {
        self.layers.iter().find(|(of, _)| *of == layer).map_or(0, |(_, ns)| *ns)
    }
}

/// The waits that are charged: of one root, all of its path; of several, those of each thread itself, each once.
pub fn charged<'r>(rows: &Rows<'_>, roots: &'r [Root]) -> Vec<&'r Alike> {
    if let [root] = roots {
        return root.pieces.iter().collect();
    }
    let actors: BTreeSet<Actor> = roots.iter().map(|root| root.actor).collect();
    // A wait of a vCPU is its own thread's, too.
    let is_told = |alike: &Alike| {
        let kind = &alike.kind;
        let of = kind.vcpu.and_then(|vcpu| rows.vcpu_thread(kind.machine, vcpu));
        kind.doing == Doing::VcpuWait
            && of.is_some_and(|thread| actors.contains(&Actor::Thread(thread)))
    };
    let own = roots.iter().flat_map(|root| &root.pieces).filter(|alike| alike.kind.is_own);
    own.filter(|alike| !is_told(alike)).collect()
}
