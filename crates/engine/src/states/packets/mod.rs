//! Packets on their way: from driver to driver, and from machine to machine.
//!
//! ```text
//!   sender    send ─▶ kick                                                    receive ─▶ wake ─▶ run
//!                      │ doorbell                                                 ▲
//!   host               └─▶ pickup ─▶ host_receive ─▶ host_send ─▶ fetch ─▶ signal ┴ inject ─▶ guest_irq
//! ```
//! A packet has a number, its flow and what tells the flow's packets apart, and so has each event at which a
//! driver gets it (`net_dev_start_xmit`) or gives it (`netif_receive_skb`). A packet's way is the list of
//! these events. Which way an event goes on, of several with its number (a packet that is sent again,
//! acknowledgements of one state), the place tells:
//! - It is sent: the one that another driver is getting on this CPU (a device stacked on another); the one
//!   that this CPU received last (a bridge, a router), or that came from elsewhere in this buffer; the one that a
//!   guest of this machine sent (macvtap gives it to no driver of the host). Else it is a new packet.
//! - It is received: the one that was sent in this machine in this buffer (veth, loopback); the one on its way to
//!   this machine, from its host or its guest or, if these do not tell, from anywhere, those that were sent first
//!   first; the one that another device of this machine gave (a bridge); the one that its host received
//!   (macvtap). Else it comes from outside of the recording.
//!
//! **Boundary state.** The ways that may go on, and who was woken for them. A hole in any stream ends what is told
//! of all of them: what comes later may be behind something that is hidden. For a while, what comes from nowhere
//! may have been sent in the hole.

mod card;
pub(crate) mod way;

use super::{
    causes::{Origin, delivery::is_sure, on_cpu::About},
    stages::WokenFor,
};
use card::Card;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use transect_model::{
    cause::{CauseKind, Evidence},
    event::DeviceName,
    ids::{MachineId, Tid},
};
use way::{Hop, Packet, Way};

/// Packets that may still arrive somewhere: the last so many.
const MAX_WAYS: usize = 1 << 14;
/// Packets with one number, at most.
const MAX_ALIKE: usize = 64;
/// Threads that were woken for packets and have not run yet, at most.
const MAX_WOKEN: usize = 4096;
/// Devices whose back end is known, at most.
const MAX_DEVICES: usize = 1 << 12;
/// A packet that has not gone on for so long will not, ns.
const STILL_NS: i64 = 2_000_000_000;
/// A packet that comes from nowhere so soon after a hole may have been sent in it, ns.
const LATE_NS: i64 = 1_000_000_000;

/// As a cause's id.
pub(crate) fn packet_id((flow, seq): Packet) -> u64 {
    u64::from(flow) << 32 | u64::from(seq)
}

#[expect(clippy::cast_possible_truncation, reason = "each half is one of the two numbers")]
fn packet_of(id: u64) -> Packet {
    ((id >> 32) as u32, id as u32)
}

/// How machines stand to each other.
pub(crate) trait Kin {
    /// The machine that has the other ends of a machine's network cards: its host; under Xen, dom0.
    fn host(&self, machine: MachineId) -> Option<MachineId>;
}

/// What a thread does once it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// It takes the packet from the guest that sent it.
    Pickup,
    /// It takes the packet to the guest that gets it.
    Fetch,
}

/// What was received: by whom it was sent, and of how many alike it is the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) serial: u64,
    /// The last sender, if that was another machine.
    pub(crate) from: Option<Origin>,
    pub(crate) candidates: u32,
}

/// Whom the packets to a device of a host wake: this thread so often, of all times.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct BackEnd {
    tid: Tid,
    wakes: u64,
    all: u64,
}

/// The packets under way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Packets {
    ways: BTreeMap<u64, Way>,
    serial: u64,
    /// By number: the ways with it, in the order in which they began.
    alike: BTreeMap<Packet, VecDeque<u64>>,
    /// By host and thread: the packets for which it was woken and has not run yet.
    woken: BTreeMap<(usize, Tid), Vec<(u64, Step)>>,
    /// By host and device: whom its packets wake.
    back_ends: BTreeMap<(usize, [u8; 16]), BackEnd>,
    /// By the index of the vCPU.
    cards: Vec<Card>,
    /// Until when events were missing.
    lost_until: Option<i64>,
    /// Ways that nothing is added to any more.
    done: Vec<Way>,
}

impl Packets {
    /// A driver gets a packet. `last` is what this CPU did with packets before.
    pub(crate) fn send(
        &mut self,
        packet: Packet,
        hop: Hop,
        from: Origin,
        last: &LastOnCpu,
        kin: &impl Kin,
    ) -> u64 {
        let serial = match self.sent_again(packet, &hop, last, kin) {
            Some(serial) => serial,
            None => self.begin(Way::new(packet, &hop, from.tid)),
        };
        if let Some(way) = self.ways.get_mut(&serial) {
            way.goes_on(hop, Some(Evidence::Id));
            way.from = Some(from);
        }
        serial
    }

    fn sent_again(
        &self,
        packet: Packet,
        hop: &Hop,
        last: &LastOnCpu,
        kin: &impl Kin,
    ) -> Option<u64> {
        let alike = self.alike.get(&packet)?;
        let is_alike = |serial: &u64| alike.contains(serial);
        let stacked = last.transmit.filter(|transmit| transmit.skb == hop.skb);
        if let Some(serial) = stacked.map(|transmit| transmit.serial).filter(is_alike) {
            return Some(serial);
        }
        let is_here = |way: &Way| {
            let at = way.place();
            at.machine == hop.machine && !at.is_sent && !at.is_loopback()
        };
        if let Some(serial) = last.received.filter(is_alike)
            && self.ways.get(&serial).is_some_and(is_here)
        {
            return Some(serial);
        }
        let find = |fits: &dyn Fn(&Way) -> bool| {
            alike.iter().copied().find(|serial| self.ways.get(serial).is_some_and(fits))
        };
        let is_forwarded = |way: &Way| {
            let is_from_elsewhere = way.first().machine != hop.machine || !way.first().is_sent;
            is_here(way) && is_from_elsewhere && way.place().skb == hop.skb
        };
        let is_of_guest = |way: &Way| {
            let at = way.place();
            at.is_sent && kin.host(at.machine) == Some(hop.machine) && !way.visits(hop.machine)
        };
        find(&is_forwarded).or_else(|| find(&is_of_guest))
    }

    /// A driver gives a packet. `is_partial`: events of some machine are missing all the time.
    pub(crate) fn receive(
        &mut self,
        packet: Packet,
        hop: Hop,
        is_partial: bool,
        kin: &impl Kin,
    ) -> Arrival {
        let found = self.comes_from(packet, &hop, kin);
        let (serial, candidates) = match found {
            Some(found) => found,
            None => {
                let mut way = Way::new(packet, &hop, None);
                way.is_late = is_partial || self.is_late(hop.ts);
                (self.begin(way), 1)
            }
        };
        let mut from = None;
        if let Some(way) = self.ways.get_mut(&serial) {
            if way.place().machine != hop.machine {
                from = way.from;
            }
            way.goes_on(hop, found.map(|_| Evidence::of_number(candidates)));
        }
        Arrival { serial, from, candidates }
    }

    /// The way that goes on, and how many could.
    fn comes_from(&self, packet: Packet, hop: &Hop, kin: &impl Kin) -> Option<(u64, u32)> {
        let alike = self.alike.get(&packet)?;
        let find = |fits: &dyn Fn(&Way) -> bool| {
            let is_it = |serial: &&u64| self.ways.get(*serial).is_some_and(fits);
            let mut all = alike.iter().filter(is_it);
            let first = *all.next()?;
            Some((first, 1 + u32::try_from(all.count()).unwrap_or(0)))
        };
        let is_same_buffer = |way: &Way| {
            let at = way.place();
            at.machine == hop.machine && at.is_sent && at.skb == hop.skb
        };
        // It may have been in this machine before: a guest can be a router.
        let is_coming = |way: &Way| way.place().is_sent && way.place().machine != hop.machine;
        let is_near = |way: &Way| {
            let at = way.place().machine;
            is_coming(way)
                && (kin.host(at) == Some(hop.machine) || kin.host(hop.machine) == Some(at))
        };
        let is_given_on = |way: &Way| {
            let at = way.place();
            at.machine == hop.machine
                && !at.is_sent
                && at.skb == hop.skb
                && at.device.is_some()
                && at.device != hop.device
        };
        let is_of_host = |way: &Way| {
            let at = way.place();
            !at.is_sent && kin.host(hop.machine) == Some(at.machine) && !way.visits(hop.machine)
        };
        find(&is_same_buffer)
            .or_else(|| find(&is_near))
            .or_else(|| find(&is_coming))
            .or_else(|| find(&is_given_on))
            .or_else(|| find(&is_of_host))
    }

    fn begin(&mut self, mut way: Way) -> u64 {
        self.serial += 1;
        let (packet, now) = (way.packet, way.first().ts);
        way.begins_in_hole = self.lost_until.is_some_and(|until| now < until);
        self.ways.insert(self.serial, way);
        let alike = self.alike.entry(packet).or_default();
        alike.push_back(self.serial);
        let too_many = (alike.len() > MAX_ALIKE).then(|| alike.front().copied()).flatten();
        let oldest = self.ways.first_key_value().map(|(serial, _)| *serial);
        let gone = too_many.or(oldest.filter(|_| self.ways.len() > MAX_WAYS));
        let gone = gone.and_then(|serial| self.take(serial));
        self.done.extend(gone);
        self.end_still(now);
        self.serial
    }

    /// Ends the oldest ways as long as they have not gone on for a while.
    fn end_still(&mut self, now: i64) {
        while let Some((serial, way)) = self.ways.first_key_value()
            && now.checked_sub(way.last_change()).is_none_or(|still| still > STILL_NS)
        {
            let way = self.take(*serial);
            self.done.extend(way);
        }
    }

    fn take(&mut self, serial: u64) -> Option<Way> {
        let way = self.ways.remove(&serial)?;
        if let Some(alike) = self.alike.get_mut(&way.packet) {
            alike.retain(|other| *other != serial);
            if alike.is_empty() {
                self.alike.remove(&way.packet);
            }
        }
        Some(way)
    }

    /// The vCPU of that index.
    pub(crate) fn card(&mut self, v: usize) -> &mut Card {
        if self.cards.len() <= v {
            self.cards.resize_with(v + 1, Card::default);
        }
        &mut self.cards[v]
    }

    /// A packet under way of which everything was recorded so far.
    pub(crate) fn way(&mut self, serial: u64) -> Option<&mut Way> {
        self.ways.get_mut(&serial).filter(|way| !way.is_hidden)
    }

    /// A thread of a host was woken for a packet.
    pub(crate) fn wait_for(&mut self, host: usize, tid: Tid, serial: u64, step: Step) {
        if self.woken.len() >= MAX_WOKEN {
            self.woken.clear();
        }
        let packets = self.woken.entry((host, tid)).or_default();
        if packets.len() < MAX_WOKEN {
            packets.push((serial, step));
        }
    }

    /// It gets a CPU.
    pub(crate) fn come(&mut self, host: usize, tid: Tid, t: i64) {
        if self.woken.is_empty() {
            return;
        }
        for (serial, step) in self.woken.remove(&(host, tid)).unwrap_or_default() {
            let Some(way) = self.way(serial) else { continue };
            match step {
                Step::Pickup if way.backend == Some(tid) => {
                    way.pickup.get_or_insert(t);
                }
                Step::Fetch if way.to_backend == Some(tid) => {
                    way.fetch.get_or_insert(t);
                }
                _ => {}
            }
        }
    }

    /// What a host's device got woke a thread: how well it is known that this is its back end.
    pub(crate) fn device_wakes(&mut self, host: usize, device: DeviceName, tid: Tid) -> Evidence {
        let key = (host, device.0);
        if self.back_ends.len() >= MAX_DEVICES && !self.back_ends.contains_key(&key) {
            return Evidence::Context;
        }
        let known = self.back_ends.entry(key).or_insert(BackEnd { tid, wakes: 0, all: 0 });
        if known.tid != tid && known.wakes * 2 < known.all {
            *known = BackEnd { tid, wakes: 0, all: 0 };
        }
        let is_sure = known.tid == tid && is_sure(known.wakes, known.all);
        known.wakes += u64::from(known.tid == tid);
        known.all += 1;
        if is_sure { Evidence::Id } else { Evidence::Context }
    }

    /// The thread that takes what a host's device gets.
    pub(crate) fn back_end(&self, host: usize, device: DeviceName) -> Option<Tid> {
        self.back_ends.get(&(host, device.0)).map(|known| known.tid)
    }

    /// A thread is woken about that.
    pub(crate) fn wakes(&mut self, machine: MachineId, about: About, woken: WokenFor) {
        if let Some(serial) = self.find(machine, about)
            && let Some(way) = self.way(serial)
        {
            way.wake.get_or_insert(woken);
        }
    }

    /// A thread that was woken at `woken`, about that, gets a CPU.
    pub(crate) fn runs(
        &mut self,
        machine: MachineId,
        about: About,
        (woken, t): (i64, i64),
        tid: Tid,
    ) {
        if let Some(serial) = self.find(machine, about)
            && let Some(way) = self.way(serial)
            && way.wake.is_some_and(|told| (told.ts, told.tid) == (woken, tid))
        {
            way.run.get_or_insert(t);
        }
    }

    fn find(&self, machine: MachineId, about: About) -> Option<u64> {
        let packet = packet_of(about.id.filter(|_| about.kind == CauseKind::Packet)?);
        let is_it = |serial: &u64| {
            let at = self.ways.get(serial).map(Way::place);
            at.is_some_and(|at| at.machine == machine && !at.is_sent && at.ts == about.ts)
        };
        self.alike.get(&packet)?.iter().copied().find(is_it)
    }

    /// Ways that nothing is added to any more, to be told.
    pub(crate) fn done(&mut self) -> Vec<Way> {
        std::mem::take(&mut self.done)
    }

    /// Is there anything to be told?
    pub(crate) fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// Events are missing, until then.
    pub(crate) fn lose(&mut self, until: i64) {
        self.woken.clear();
        self.cards.iter_mut().for_each(Card::lose);
        self.ways.values_mut().for_each(Way::hide);
        self.lost_until = self.lost_until.max(Some(until));
    }

    /// Were events missing right before?
    pub(crate) fn is_late(&self, t: i64) -> bool {
        let is_late = |until: i64| t.checked_sub(until).is_none_or(|after| after < LATE_NS);
        self.lost_until.is_some_and(is_late)
    }

    /// Nothing more is known of any.
    pub(crate) fn finish(&mut self) {
        self.alike.clear();
        let ways = std::mem::take(&mut self.ways);
        self.done.extend(ways.into_values());
    }
}

/// A driver that is getting a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Transmit {
    pub(crate) serial: u64,
    pub(crate) skb: u64,
    /// It woke somebody.
    pub(crate) woken: bool,
}

/// What one CPU did with packets last.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct LastOnCpu {
    /// The driver that is getting one: from `net_dev_start_xmit` to `net_dev_xmit`.
    pub(crate) transmit: Option<Transmit>,
    /// The packet that it received, if it has sent none since.
    pub(crate) received: Option<u64>,
    /// `netif_receive_skb` of which the number is not told yet: when, which buffer and device, how long.
    pub(crate) given: Option<(i64, u64, DeviceName, u32)>,
}
