//! Interrupts on their way into a vCPU, and kicks on their way out: between a guest and its host.
//!
//! Learned on the way, by vote: which line a vector of a vCPU runs, and which message interrupt
//! answers which doorbell of which device ([`Queues`]).

use super::{Effect, Origin, on_cpu::Message};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::{BlockDevice, MachineId, Tid},
    table::{Queue, Row, TableSink},
};

/// Vectors from here on are the kernel's own (`FIRST_SYSTEM_VECTOR`, arch/x86/include/asm/irq_vectors.h):
/// they run no line.
const FIRST_SYSTEM_VECTOR: u32 = 0xec;
/// `LOCAL_TIMER_VECTOR` of Linux.
const LOCAL_TIMER_VECTOR: u32 = 0xec;
/// A line is known when so many handlers have followed a vector, and nearly all were this line's.
const SURE_RUNS: u64 = 3;
/// The queue of a request is known when so many others show it.
const SURE_REQUESTS: u64 = 20;
/// Share of them, percent.
const SURE_PERCENT: u64 = 99;
/// Requests that wait for a doorbell, at most.
const MAX_AWAITING: usize = 1024;
/// Requests under way, at most.
const MAX_REQUESTS: usize = 1 << 16;
/// Pairs of a doorbell and a message, at most.
const MAX_PAIRS: usize = 1 << 12;
/// Lines that were seen to follow one vector, at most.
const MAX_LINES: usize = 64;
/// Vectors that are pending at once, at most: as many as there are.
const MAX_VECTORS: usize = 256;

/// Do so many of all votes make it sure?
pub(crate) fn is_sure(most: u64, all: u64) -> bool {
    all >= SURE_REQUESTS && most * 100 >= all * SURE_PERCENT
}

/// A doorbell as one number: a guest-physical address, or a port above them all.
pub(crate) const PORT: u64 = 1 << 63;

/// An interrupt that a vCPU has accepted and not got yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) from: Origin,
    pub(crate) message: Option<Message>,
    /// timer, ipi or injection.
    pub(crate) kind: CauseKind,
    /// How many came before it was injected.
    pub(crate) count: u32,
    /// When the last of them did.
    pub(crate) last: i64,
    /// Others may have come that were not recorded.
    pub(crate) is_partial: bool,
}

/// An interrupt that was injected and whose handler has not been seen yet.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Injected {
    from: Origin,
    message: Option<Message>,
    backend: Option<Tid>,
    /// When it was accepted, first and last; none if that is not known.
    signals: Option<(i64, i64)>,
    /// When it was injected; none if the CPU delivers it.
    inject: Option<i64>,
    /// How many came before its handler.
    count: u32,
}

/// A doorbell that was rung in the exit that is open.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Kick {
    pub(crate) from: Origin,
    pub(crate) doorbell: u64,
    /// Somebody went on for it.
    pub(crate) answered: bool,
}

/// What a line's handler was run for.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Delivered {
    pub(crate) irq: i32,
    pub(crate) message: Option<Message>,
    pub(crate) backend: Option<Tid>,
    pub(crate) signals: Option<(i64, i64)>,
    pub(crate) inject: Option<i64>,
    /// When it began.
    pub(crate) handler: i64,
}

impl Delivered {
    /// Address and data of its message.
    pub(crate) fn message(&self) -> Option<(u64, u64)> {
        self.message.map(|message| (message.address, message.data))
    }
}

/// What follows from an injection: the row's parts.
pub(crate) struct Line {
    pub(crate) from: Origin,
    pub(crate) evidence: Evidence,
    pub(crate) candidates: u32,
}

/// Device and first sector of a request.
pub(crate) type Request = (u32, u64);

/// One vCPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Delivery {
    accepted: BTreeMap<u32, Accepted>,
    /// After a hole: vectors that were injected since. Others may have been accepted in it, and not yet injected.
    settled: Option<BTreeSet<u32>>,
    injected: BTreeMap<u32, Injected>,
    kick: Option<Kick>,
    /// Requests that were issued since the last doorbell.
    awaiting: Vec<Request>,
    /// Those for which the doorbell of the exit that is open was rung.
    rung: Vec<Request>,
    /// By device and doorbell: for how many requests it was the first that followed.
    rings: BTreeMap<(u32, u64), u64>,
    delivered: Option<Delivered>,
    /// By vector: how often which line's handler followed.
    lines: BTreeMap<u32, BTreeMap<i32, u64>>,
}

impl Delivery {
    /// `kvm_apic_accept_irq`: what its sender does.
    pub(crate) fn accept(&mut self, vector: u32, new: Accepted) {
        let is_settled = self.settled.as_ref().is_none_or(|settled| settled.contains(&vector));
        if is_settled && self.accepted.len() < MAX_VECTORS {
            let open = self.accepted.entry(vector).or_insert(Accepted { count: 0, ..new });
            open.count = open.count.saturating_add(1);
            open.last = new.last;
        }
    }

    /// `kvm_inj_virq`, in the vCPU's thread: what it is the effect of, if that was seen.
    pub(crate) fn inject(&mut self, vector: u32, from: Origin) -> Option<Accepted> {
        let accepted = self.accepted.remove(&vector);
        if let Some(settled) = self.settled.as_mut().filter(|settled| settled.len() < MAX_VECTORS) {
            settled.insert(vector);
        }
        if self.injected.len() < MAX_VECTORS {
            let from = Origin { vector: i32::try_from(vector).ok(), ..from };
            let new = Injected {
                from,
                message: accepted.and_then(|accepted| accepted.message),
                backend: accepted.and_then(|accepted| accepted.from.tid),
                signals: accepted.map(|accepted| (accepted.from.ts, accepted.last)),
                inject: Some(from.ts),
                count: 1,
            };
            self.injected.insert(vector, new);
        }
        accepted
    }

    /// The CPU itself brings an interrupt to the guest: those of one vector that wait for it are one.
    pub(crate) fn deliver(&mut self, vector: u32, new: Accepted) {
        if self.injected.len() < MAX_VECTORS {
            let Accepted { from, message, .. } = new;
            let (signals, inject) = (Some((from.ts, from.ts)), None);
            let first = Injected { from, message, backend: from.tid, signals, inject, count: 0 };
            let open = self.injected.entry(vector).or_insert(first);
            open.count = open.count.saturating_add(1);
            open.signals = open.signals.map(|(first, _)| (first, from.ts));
        }
    }

    /// The guest runs a line's handler on this vCPU: the injection that led to it.
    pub(crate) fn line(&mut self, irq: i32, t: i64) -> Option<Line> {
        self.delivered = None;
        let known = |delivery: &Self, vector: u32| delivery.known_line(vector);
        let fits: Vec<u32> = self
            .injected
            .keys()
            .copied()
            .filter(|vector| *vector < FIRST_SYSTEM_VECTOR)
            .filter(|vector| known(self, *vector).is_none_or(|line| line == irq))
            .collect();
        let is_known = |vector: &u32| known(self, *vector) == Some(irq);
        let sure: Vec<u32> = fits.iter().copied().filter(is_known).collect();
        let of = if sure.is_empty() { &fits } else { &sure };
        let vector = *of.iter().max_by_key(|vector| self.injected[vector].from.ts)?;
        let evidence = match (sure.is_empty(), of.len()) {
            (false, 1) => Evidence::Id,
            (true, 1) => Evidence::Context,
            _ => Evidence::Order,
        };
        let candidates = u32::try_from(of.len()).unwrap_or(u32::MAX);
        let injected = self.injected.remove(&vector)?;
        // One of several candidates votes for nothing.
        let runs = self.lines.entry(vector).or_default();
        if candidates == 1 && (runs.len() < MAX_LINES || runs.contains_key(&irq)) {
            *runs.entry(irq).or_default() += 1;
        }
        let Injected { from, message, backend, signals, inject, count } = injected;
        let evidence = if count == 1 { evidence } else { Evidence::Order };
        let candidates = candidates.max(count);
        self.delivered = Some(Delivered { irq, message, backend, signals, inject, handler: t });
        Some(Line { from, evidence, candidates })
    }

    /// The guest runs the handler of a vector of its own on this vCPU.
    pub(crate) fn vector(&mut self, vector: u32) -> Option<Line> {
        let Injected { from, count, .. } = self.injected.remove(&vector)?;
        Some(Line { from, evidence: Evidence::of_number(count), candidates: count })
    }

    /// The line that a vector runs, if that is sure.
    fn known_line(&self, vector: u32) -> Option<i32> {
        let (irq, runs, all) = self.vote(vector)?;
        (all >= SURE_RUNS && runs * 100 >= all * SURE_PERCENT).then_some(irq)
    }

    /// The line most often run, how often, and how many runs there were.
    fn vote(&self, vector: u32) -> Option<(i32, u64, u64)> {
        let runs = self.lines.get(&vector)?;
        let (irq, most) = runs.iter().max_by_key(|(irq, runs)| (**runs, Reverse(**irq)))?;
        Some((*irq, *most, runs.values().sum()))
    }

    /// Each vector with its line, how often it ran, and how often any did.
    pub(crate) fn votes(&self) -> impl Iterator<Item = (u32, (i32, u64, u64))> {
        self.lines.keys().filter_map(|vector| Some((*vector, self.vote(*vector)?)))
    }

    /// The guest issued a request on this vCPU.
    pub(crate) fn issue(&mut self, request: Request) {
        if self.awaiting.len() < MAX_AWAITING {
            self.awaiting.push(request);
        }
    }

    /// The requests that were issued since the last doorbell.
    pub(crate) fn take_awaiting(&mut self) -> Vec<Request> {
        std::mem::take(&mut self.awaiting)
    }

    /// A doorbell in the exit that is open: the requests that were waiting for one, with how well that is known. A
    /// request stays waiting if its device has another doorbell here, by vote of those before it.
    pub(crate) fn ring(&mut self, kick: Kick) -> Vec<(Request, Evidence)> {
        let doorbell = kick.doorbell;
        self.kick = Some(kick);
        let mut rung = Vec::new();
        let awaiting = std::mem::take(&mut self.awaiting);
        for request in awaiting {
            match self.doorbell_of(request.0) {
                Some(known) if known != doorbell => self.awaiting.push(request),
                known => {
                    let evidence = if known.is_some() { Evidence::Id } else { Evidence::Context };
                    rung.push((request, evidence));
                }
            }
        }
        for ((device, _), _) in &rung {
            let rings = self.rings.len();
            if rings < MAX_PAIRS || self.rings.contains_key(&(*device, doorbell)) {
                *self.rings.entry((*device, doorbell)).or_default() += 1;
            }
        }
        self.rung = rung.iter().map(|(request, _)| *request).collect();
        rung
    }

    /// A doorbell in the exit that is open, for no request.
    pub(crate) fn ring_for_none(&mut self, kick: Kick) {
        self.kick = Some(kick);
        self.rung.clear();
    }

    /// The doorbell of a device's queue on this vCPU, if that is sure.
    fn doorbell_of(&self, device: u32) -> Option<u64> {
        let rings = || self.rings.range((device, 0)..=(device, u64::MAX));
        let all: u64 = rings().map(|(_, count)| *count).sum();
        let ((_, doorbell), most) = rings().max_by_key(|(_, count)| **count)?;
        is_sure(*most, all).then_some(*doorbell)
    }

    /// Somebody goes on in the exit that is open: the kick, if it is the first, and for which requests.
    pub(crate) fn answer(&mut self) -> Option<(Kick, Vec<Request>)> {
        let kick = self.kick.as_mut().filter(|kick| !kick.answered)?;
        kick.answered = true;
        Some((*kick, std::mem::take(&mut self.rung)))
    }

    /// When a doorbell was rung in the exit that is open.
    pub(crate) fn doorbell_ts(&self) -> Option<i64> {
        self.kick.map(|kick| kick.from.ts)
    }

    /// The exit is over: its kick, if nobody went on for it.
    pub(crate) fn leave(&mut self) -> Option<Kick> {
        self.rung.clear();
        self.kick.take().filter(|kick| !kick.answered)
    }

    /// Another thread runs: what the last handler was run for concerns it no more.
    pub(crate) fn switches(&mut self) {
        self.delivered = None;
    }

    /// Events are missing. What was learned stays.
    pub(crate) fn lose(&mut self) {
        let lines = std::mem::take(&mut self.lines);
        let rings = std::mem::take(&mut self.rings);
        *self = Delivery { lines, rings, settled: Some(BTreeSet::new()), ..Delivery::default() };
    }

    /// The handler in which something is done.
    pub(crate) fn delivered(&self) -> Option<Delivered> {
        self.delivered
    }
}

/// timer, ipi or injection: what an accepted interrupt is, by who sent it.
pub(crate) fn kind_of(
    message: Option<Message>,
    vector: u32,
    by_itself: bool,
    by_vcpu: bool,
) -> CauseKind {
    match message {
        Some(_) => CauseKind::Injection,
        None if by_itself && vector == LOCAL_TIMER_VECTOR => CauseKind::Timer,
        None if by_vcpu => CauseKind::Ipi,
        None => CauseKind::Injection,
    }
}

/// Requests that show one pair.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Shown {
    requests: u64,
    irq: i32,
    backend: Option<Tid>,
}

/// The queues of one VM's block devices.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Queues {
    /// Requests under way, with the doorbell that was rung for them.
    requests: BTreeMap<Request, Option<u64>>,
    /// By device and doorbell, then by message.
    pairs: BTreeMap<(u32, u64), BTreeMap<(u64, u64), Shown>>,
    /// By doorbell: the thread that it woke last.
    back_ends: BTreeMap<u64, Tid>,
    /// By message: the last handler that it led to, on any vCPU.
    handlers: BTreeMap<(u64, u64), Delivered>,
}

impl Queues {
    /// A request is issued.
    pub(crate) fn issue(&mut self, request: Request) {
        if self.requests.len() >= MAX_REQUESTS {
            self.requests.clear();
        }
        self.requests.insert(request, None);
    }

    /// A doorbell is rung for these.
    pub(crate) fn ring(&mut self, requests: &[(Request, Evidence)], doorbell: u64) {
        for (request, _) in requests {
            if let Some(known) = self.requests.get_mut(request) {
                known.get_or_insert(doorbell);
            }
        }
    }

    /// The doorbell wakes a thread.
    pub(crate) fn wakes(&mut self, doorbell: u64, tid: Tid) {
        if self.back_ends.len() < MAX_PAIRS || self.back_ends.contains_key(&doorbell) {
            self.back_ends.insert(doorbell, tid);
        }
    }

    /// The thread that the doorbell woke last.
    pub(crate) fn back_end(&self, doorbell: u64) -> Option<Tid> {
        self.back_ends.get(&doorbell).copied()
    }

    /// A line's handler begins.
    pub(crate) fn handles(&mut self, delivered: Delivered) {
        if let Some(Message { address, data }) = delivered.message
            && (self.handlers.len() < MAX_PAIRS || self.handlers.contains_key(&(address, data)))
        {
            self.handlers.insert((address, data), delivered);
        }
    }

    /// The handlers to which messages led since then: the last of each.
    pub(crate) fn handled_since(&self, t: i64) -> Vec<Delivered> {
        self.handlers.values().filter(|delivered| delivered.handler >= t).copied().collect()
    }

    /// The interrupt that tells of the end of a request for which this doorbell was rung: that in whose handler it
    /// is completed, or the last one of its queue if the guest has another CPU complete it.
    pub(crate) fn interrupt_of(
        &self,
        device: u32,
        doorbell: Option<u64>,
        by: Option<Delivered>,
    ) -> Option<(Delivered, Evidence)> {
        let message = |by: Delivered| by.message.map(|message| (message.address, message.data));
        let known = doorbell.and_then(|doorbell| self.message_of(device, doorbell));
        match (by, known) {
            (Some(by), None) => Some((by, Evidence::Context)),
            (Some(by), Some(known)) if message(by) == Some(known) => Some((by, Evidence::Id)),
            (_, Some(known)) => Some((*self.handlers.get(&known)?, Evidence::Order)),
            (None, None) => None,
        }
    }

    /// The message that answers a doorbell, if that is sure.
    fn message_of(&self, device: u32, doorbell: u64) -> Option<(u64, u64)> {
        let messages = self.pairs.get(&(device, doorbell))?;
        let all: u64 = messages.values().map(|shown| shown.requests).sum();
        let (message, most) = messages.iter().max_by_key(|(_, shown)| shown.requests)?;
        is_sure(most.requests, all).then_some(*message)
    }

    /// A request is done, in the handler of an interrupt if that is known.
    pub(crate) fn complete(&mut self, request: Request, by: Option<Delivered>) {
        let Some(Some(doorbell)) = self.requests.remove(&request) else { return };
        let Some(Delivered { irq, message: Some(message), backend, .. }) = by else { return };
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&(request.0, doorbell)) {
            return;
        }
        let messages = self.pairs.entry((request.0, doorbell)).or_default();
        if messages.len() >= MAX_PAIRS {
            return;
        }
        let shown = messages.entry((message.address, message.data)).or_default();
        *shown = Shown { requests: shown.requests + 1, irq, backend: backend.or(shown.backend) };
    }

    /// Events are missing. What was learned stays.
    pub(crate) fn lose(&mut self) {
        self.requests.clear();
        self.handlers.clear();
    }

    /// The rows of the queues table; `name` is that of an interrupt line.
    pub(crate) fn emit(
        &self,
        vm: MachineId,
        name: impl Fn(i32) -> String,
        sink: &mut dyn TableSink,
    ) {
        for ((device, doorbell), messages) in &self.pairs {
            let all: u64 = messages.values().map(|shown| shown.requests).sum();
            for ((address, data), shown) in messages {
                #[expect(clippy::cast_precision_loss, reason = "a share of counts")]
                let agreement = shown.requests as f64 / all as f64;
                sink.row(Row::Queue(Queue {
                    machine_id: vm,
                    device: BlockDevice(*device),
                    queue: name(shown.irq),
                    doorbell: *doorbell,
                    msi_address: *address,
                    msi_data: *data,
                    backend_tid: shown.backend,
                    requests: shown.requests,
                    agreement,
                }));
            }
        }
    }
}

/// The vCPU's thread as the effect of an injection.
pub(crate) fn into_vcpu(to: Effect, vm: MachineId, vcpu: transect_model::ids::VcpuId) -> Effect {
    Effect { machine: vm, cpu: None, tid: None, vcpu: Some(vcpu), ..to }
}
