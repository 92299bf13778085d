//! One packet's way, and its row.

use crate::states::{
    causes::Origin,
    stages::{Interrupt, Rung, WokenFor},
};
use serde::{Deserialize, Serialize};
use transect_model::{
    cause::Evidence,
    event::DeviceName,
    ids::{MachineId, Tid},
    stage::Staged as _,
    table,
};

/// Flow and sequence number.
pub(crate) type Packet = (u32, u32);

/// Events of one way that are kept, at most: beyond, the last one is replaced.
const MAX_HOPS: usize = 16;

/// A driver got or gave the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hop {
    pub(crate) ts: i64,
    pub(crate) machine: MachineId,
    pub(crate) is_sent: bool,
    /// The buffer.
    pub(crate) skb: u64,
    pub(crate) device: Option<DeviceName>,
    pub(crate) bytes: Option<u32>,
    /// Others of this machine may not have been recorded.
    pub(crate) is_partial: bool,
}

impl Hop {
    pub(crate) fn is_loopback(&self) -> bool {
        self.device.is_some_and(|device| device.as_bytes() == b"lo")
    }
}

/// What is known of a packet's way so far.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Way {
    pub(crate) packet: Packet,
    /// The thread that sent it.
    tid: Option<Tid>,
    /// The first event, and those that follow.
    first: Hop,
    rest: Vec<Hop>,
    /// Where it is, if that is more than is told.
    place: Option<Hop>,
    /// Who sent it last.
    pub(crate) from: Option<Origin>,
    /// The weakest evidence by which events were joined.
    evidence: Option<Evidence>,
    pub(crate) kick: Option<Rung>,
    pub(crate) pickup: Option<i64>,
    pub(crate) backend: Option<Tid>,
    pub(crate) fetch: Option<i64>,
    pub(crate) fetch_evidence: Evidence,
    pub(crate) to_backend: Option<Tid>,
    pub(crate) interrupt: Option<Interrupt>,
    pub(crate) wake: Option<WokenFor>,
    pub(crate) run: Option<i64>,
    /// Events of its further way may be missing.
    pub(crate) is_hidden: bool,
    /// Events of any machine were missing when it began.
    pub(crate) begins_in_hole: bool,
    /// Its beginning may be missing.
    pub(crate) is_late: bool,
}

/// What is known of the machines at both ends.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    /// The host of the first machine, and that of the last.
    pub(crate) first_host: Option<MachineId>,
    pub(crate) last_host: Option<MachineId>,
    pub(crate) error_ns: Option<u64>,
}

/// The events of `table::Packet`, in its order.
type Cuts = [Option<i64>; 12];

const SEND: usize = 0;
const KICK: usize = 1;
const PICKUP: usize = 2;
const HOST_RECEIVE: usize = 3;
const HOST_SEND: usize = 4;
const FETCH: usize = 5;
const SIGNAL: usize = 6;
const INJECT: usize = 7;
const GUEST_IRQ: usize = 8;
const RECEIVE: usize = 9;
const WAKE: usize = 10;
const RUN: usize = 11;

/// The most certain first: the packet's own events, those of who was woken, and the interrupt.
const BY_CERTAINTY: [usize; 12] = [
    SEND,
    HOST_RECEIVE,
    RECEIVE,
    HOST_SEND,
    WAKE,
    RUN,
    FETCH,
    GUEST_IRQ,
    INJECT,
    SIGNAL,
    KICK,
    PICKUP,
];

/// Of the events those that are in order with all that are more certain.
fn in_order(cuts: Cuts) -> Cuts {
    let mut known: Cuts = [None; 12];
    for at in BY_CERTAINTY {
        let Some(ts) = cuts[at] else { continue };
        let is_behind = known[..at].iter().flatten().all(|before| *before <= ts);
        let is_before = known[at..].iter().flatten().all(|behind| *behind >= ts);
        if is_behind && is_before {
            known[at] = Some(ts);
        }
    }
    known
}

impl Way {
    /// A way that begins with this event.
    pub(crate) fn new(packet: Packet, first: &Hop, tid: Option<Tid>) -> Self {
        Way {
            packet,
            tid,
            first: *first,
            rest: Vec::new(),
            place: None,
            from: None,
            evidence: None,
            kick: None,
            pickup: None,
            backend: None,
            fetch: None,
            fetch_evidence: Evidence::Context,
            to_backend: None,
            interrupt: None,
            wake: None,
            run: None,
            is_hidden: false,
            begins_in_hole: false,
            is_late: false,
        }
    }

    /// The first event.
    pub(crate) fn first(&self) -> &Hop {
        &self.first
    }

    /// The last event.
    pub(crate) fn place(&self) -> &Hop {
        self.place.as_ref().or(self.rest.last()).unwrap_or(&self.first)
    }

    fn told(&self) -> impl DoubleEndedIterator<Item = &Hop> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// Was it in that machine?
    pub(crate) fn visits(&self, machine: MachineId) -> bool {
        self.told().chain(&self.place).any(|hop| hop.machine == machine)
    }

    /// Another event of it, unless that is the first; with what joined it to those before.
    pub(crate) fn goes_on(&mut self, hop: Hop, evidence: Option<Evidence>) {
        if hop == self.first {
            return;
        }
        if hop.is_partial {
            self.hide();
        }
        if self.is_hidden {
            self.place = Some(hop);
            return;
        }
        if hop.machine != self.place().machine {
            self.evidence = self.evidence.max(evidence);
        }
        // Whoever listened on the way does not end it.
        (self.wake, self.run, self.interrupt) = (None, None, None);
        if self.rest.len() >= MAX_HOPS {
            self.rest.pop();
        }
        self.rest.push(hop);
    }

    /// The driver has got it: which device's it is, and how long the packet is.
    pub(crate) fn is_handed_to(
        &mut self,
        (machine, skb): (MachineId, u64),
        device: DeviceName,
        bytes: u32,
    ) {
        // It may have been received meanwhile.
        let is_it = |hop: &&mut Hop| hop.machine == machine && hop.is_sent && hop.skb == skb;
        let first = std::iter::once(&mut self.first);
        if let Some(hop) = first.chain(&mut self.rest).rev().find(is_it) {
            hop.device.get_or_insert(device);
            hop.bytes.get_or_insert(bytes);
        }
    }

    /// When it went on last, or somebody ran for it.
    pub(crate) fn last_change(&self) -> i64 {
        let woken = self.wake.map_or(i64::MIN, |woken| woken.ts);
        self.place().ts.max(woken).max(self.run.unwrap_or(i64::MIN))
    }

    /// When it was sent last.
    pub(crate) fn sent_last(&self) -> Option<i64> {
        self.told().rev().find(|hop| hop.is_sent).map(|hop| hop.ts)
    }

    /// What is known of it, in order.
    fn cuts(&self, ends: &Ends) -> Cuts {
        let first = &self.first;
        let last = self.told().next_back().unwrap_or(first);
        let to = self.to_machine();
        let sender = first.is_sent.then_some(first.machine);
        // The host of one end may be the other end.
        let is_in = |hop: &&Hop| {
            // Of the last event it is not known whether it is the end, if the rest may be missing.
            let is_end = Some(hop.machine) == to || (self.is_hidden && *hop == last);
            let is_of_host = !is_end || ends.first_host == Some(hop.machine);
            !hop.is_sent && Some(hop.machine) != sender && is_of_host
        };
        let is_out = |hop: &&Hop| {
            let is_of_host =
                Some(hop.machine) != sender || (to.is_some() && ends.last_host == sender);
            hop.is_sent && Some(hop.machine) != to && is_of_host
        };
        let (forwarded_in, forwarded_out) = self.forwarded_within().unzip();
        let comes_in = match sender {
            Some(_) => self.told().find(is_in).map(|hop| hop.ts).or(forwarded_in),
            None => self.rest.first().map(|_| first.ts),
        };
        let interrupt = self.interrupt.filter(|_| to.is_some());
        let mut cuts: Cuts = [None; 12];
        cuts[SEND] = sender.map(|_| first.ts);
        cuts[KICK] = self.kick.map(|kick| kick.ts);
        cuts[PICKUP] = self.pickup;
        cuts[HOST_RECEIVE] = comes_in;
        cuts[HOST_SEND] = self.told().rev().find(is_out).map(|hop| hop.ts).or(forwarded_out);
        cuts[FETCH] = self.fetch;
        cuts[INJECT] = interrupt.and_then(|interrupt| interrupt.inject);
        cuts[GUEST_IRQ] = interrupt.map(|interrupt| interrupt.handler);
        cuts[RECEIVE] = to.map(|_| last.ts);
        cuts[WAKE] = self.wake.filter(|woken| woken.counts(self.run)).map(|woken| woken.ts);
        cuts[RUN] = self.run;
        if let Some(Interrupt { signals: Some(signals), .. }) = interrupt {
            let ready = cuts[FETCH].or(cuts[HOST_SEND]);
            let is_for_it = |ts: &i64| ready.is_none_or(|ready| *ts >= ready);
            // One that was taken already was not for this packet: another was, and they became one.
            cuts[SIGNAL] = Some(signals.0).filter(is_for_it).or(Some(signals.1));
        }
        let mut known = in_order(cuts);
        if known[GUEST_IRQ].is_none() {
            (known[SIGNAL], known[INJECT]) = (None, None);
        }
        if known[KICK].is_none() {
            known[PICKUP] = None;
        }
        known
    }

    /// When the only machine of its way received it from one of its containers, and when it sent it on last.
    fn forwarded_within(&self) -> Option<(i64, i64)> {
        let is_in_one = self.told().all(|hop| hop.machine == self.first.machine);
        // It may have been in another one unseen.
        let is_sent = self.first.is_sent && is_in_one && !self.begins_in_hole;
        let received = self.told().position(|hop| !hop.is_sent).filter(|_| is_sent)?;
        let sent = self.told().skip(received).filter(|hop| hop.is_sent).last()?;
        Some((self.rest.get(received.checked_sub(1)?)?.ts, sent.ts))
    }

    /// Events are missing: what was told so far is all.
    pub(crate) fn hide(&mut self) {
        self.is_hidden = true;
        self.from = None;
    }

    /// The machines it was in, each once for each time it came there.
    pub(crate) fn machines(&self) -> impl Iterator<Item = MachineId> {
        self.told().map(|hop| hop.machine)
    }

    /// The machine that took it in last and did not send it on.
    pub(crate) fn to_machine(&self) -> Option<MachineId> {
        let last = self.told().next_back().filter(|last| !last.is_sent)?;
        // It may have been sent on unseen.
        (!self.is_hidden || self.wake.is_some()).then_some(last.machine)
    }

    /// The row.
    pub(crate) fn row(&self, ends: &Ends) -> table::Packet {
        let cuts = self.cuts(ends);
        let last = self.told().next_back().unwrap_or(&self.first);
        let has = |at: usize| cuts[at].is_some();
        let interrupt = self.interrupt.filter(|_| has(GUEST_IRQ));
        let is_first =
            |i: Interrupt| i.signals.is_some_and(|(first, _)| cuts[SIGNAL] == Some(first));
        let is_merged = interrupt.is_some_and(|i| has(SIGNAL) && !is_first(i));
        let evidence = [
            self.evidence,
            self.kick.filter(|_| has(KICK)).map(|kick| kick.evidence),
            self.fetch.filter(|_| has(FETCH)).map(|_| self.fetch_evidence),
            interrupt.map(|interrupt| interrupt.evidence),
            is_merged.then_some(Evidence::Order),
        ];
        let wake = self.wake.filter(|_| has(WAKE));
        let end = cuts.iter().flatten().next_back().copied();
        let mut row = table::Packet {
            ts: self.first.ts,
            dur: end.map(|end| end - self.first.ts).filter(|_| cuts.iter().flatten().count() > 1),
            machine_id: self.first.machine,
            tid: self.tid,
            device: self.first.device,
            to_machine_id: self.to_machine(),
            to_device: last.device,
            flow: self.packet.0,
            seq: self.packet.1,
            bytes: self.first.bytes.map(u64::from),
            send_ts: cuts[SEND],
            kick_ts: cuts[KICK],
            pickup_ts: cuts[PICKUP],
            host_receive_ts: cuts[HOST_RECEIVE],
            host_send_ts: cuts[HOST_SEND],
            fetch_ts: cuts[FETCH],
            signal_ts: cuts[SIGNAL],
            inject_ts: cuts[INJECT],
            guest_irq_ts: cuts[GUEST_IRQ],
            receive_ts: cuts[RECEIVE],
            wake_ts: cuts[WAKE],
            run_ts: cuts[RUN],
            wake_tid: wake.map(|woken| woken.tid),
            backend_tid: self.backend.filter(|_| has(KICK)),
            to_backend_tid: self.to_backend.filter(|_| has(HOST_SEND)),
            evidence: evidence.into_iter().flatten().max(),
            missing: String::new(),
            error_ns: ends.error_ns,
        };
        row.missing = self.missing(&row, ends);
        row
    }

    /// The stages that its way has and that are not known.
    fn missing(&self, row: &table::Packet, ends: &Ends) -> String {
        let mut has: Vec<&str> = Vec::new();
        if self.is_late {
            has.push("send");
        }
        if self.first.is_sent && ends.first_host.is_some() {
            has.extend(["kick", "pickup", "host_receive"]);
        }
        if row.to_machine_id.is_some() && ends.last_host.is_some() {
            has.extend(["host_send", "fetch", "signal", "inject", "guest_irq"]);
        }
        if row.to_machine_id.is_some() || self.is_hidden {
            has.extend(["receive", "wake", "run"]);
        }
        let unknown = table::Packet::CUTS.iter().zip(row.cuts()).filter(|(_, ts)| ts.is_none());
        let mut missing: Vec<&str> =
            unknown.map(|(cut, _)| *cut).filter(|cut| has.contains(cut)).collect();
        if row.wake_ts.is_none() {
            missing.retain(|cut| *cut != "run");
        }
        missing.join(",")
    }
}
