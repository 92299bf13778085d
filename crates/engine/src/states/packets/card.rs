//! The network cards of a guest, as one of its vCPUs uses them.
//!
//! A doorbell that is rung while a driver gets a packet (between `net_dev_start_xmit` and `net_dev_xmit` on
//! that vCPU) is the card's, and for all packets that wait for one: a driver may ring once for several
//! (`netdev_xmit_more`). Which message tells that packets have come is learned by vote, of the handlers that ran
//! between a packet's sending and its receipt: the interrupt for what the guest has sent itself is another one.

use crate::states::causes::delivery::{Delivered, is_sure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::{cause::Evidence, event::DeviceName};

/// Packets that wait for a doorbell, at most.
const MAX_AWAITING: usize = 1024;
/// The message of arrivals is known of so many …
const SURE_ARRIVALS: u64 = 20;
/// … if its handler ran before so many hundredths of them …
const SURE_PERCENT: u64 = 90;
/// … and no other's before a so many-th part of these.
const SURE_RATIO: u64 = 2;
/// Doorbells, and messages of one device, at most.
const MAX_KNOWN: usize = 1 << 8;

impl Arrivals {
    /// Is the message with so many packets the device's? Others come only now and then, and a poll that goes on
    /// takes packets without it.
    fn is_sure(&self, most: u64) -> bool {
        let others = self.messages.values().filter(|count| **count * SURE_RATIO > most).count();
        self.all >= SURE_ARRIVALS && most * 100 >= self.all * SURE_PERCENT && others <= 1
    }
}

/// What is known of one vCPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Card {
    /// Packets that a driver got since the last doorbell.
    awaiting: Vec<u64>,
    /// Those for which the doorbell of the exit that is open was rung.
    rung: Vec<u64>,
    /// By doorbell: how often it was rung while a driver got a packet.
    rings: BTreeMap<u64, u64>,
    /// By device.
    arrivals: BTreeMap<[u8; 16], Arrivals>,
}

/// The packets that came from one device behind a handler: all, and by message those before which its handler ran.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Arrivals {
    all: u64,
    messages: BTreeMap<(u64, u64), u64>,
}

impl Card {
    /// A driver gets a packet.
    pub(crate) fn sends(&mut self, packet: u64) {
        if self.awaiting.last() != Some(&packet) && self.awaiting.len() < MAX_AWAITING {
            self.awaiting.push(packet);
        }
    }

    /// A doorbell, while a driver gets a packet: for which it is, and how well that is known. None: it is not told
    /// which one it is.
    pub(crate) fn rings(&mut self, doorbell: Option<u64>) -> (Vec<u64>, Evidence) {
        let evidence = doorbell.map_or(Evidence::Context, |doorbell| self.vote(doorbell));
        self.rung = std::mem::take(&mut self.awaiting);
        (self.rung.clone(), evidence)
    }

    fn vote(&mut self, doorbell: u64) -> Evidence {
        let rings = &mut self.rings;
        let all: u64 = rings.values().sum();
        let most = rings.get(&doorbell).copied().unwrap_or(0);
        let evidence = if is_sure(most, all) { Evidence::Id } else { Evidence::Context };
        if rings.len() < MAX_KNOWN || most > 0 {
            rings.insert(doorbell, most + 1);
        }
        evidence
    }

    /// Somebody goes on in the exit that is open: for these.
    pub(crate) fn answer(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.rung)
    }

    /// The exit is over.
    pub(crate) fn leave(&mut self) {
        self.rung.clear();
    }

    /// A packet has come from a device; these handlers ran since it was sent. The one that led to it.
    pub(crate) fn arrives(
        &mut self,
        device: DeviceName,
        ran: &[Delivered],
    ) -> Option<(Delivered, Evidence)> {
        let arrivals =
            match self.arrivals.len() < MAX_KNOWN || self.arrivals.contains_key(&device.0) {
                true => self.arrivals.entry(device.0).or_default(),
                false => return None,
            };
        let votes = |of: &Delivered| {
            of.message().and_then(|key| arrivals.messages.get(&key)).copied().unwrap_or(0)
        };
        let best = ran.iter().copied().max_by_key(|of| (votes(of), of.handler));
        let evidence = match (best.map(|best| votes(&best)), ran.len()) {
            (Some(most), _) if arrivals.is_sure(most) => Evidence::Id,
            (_, 1) => Evidence::Context,
            _ => Evidence::Order,
        };
        for key in ran.iter().filter_map(Delivered::message) {
            if arrivals.messages.len() < MAX_KNOWN || arrivals.messages.contains_key(&key) {
                *arrivals.messages.entry(key).or_default() += 1;
            }
        }
        // A poll that goes on shows nothing.
        arrivals.all += u64::from(!ran.is_empty());
        best.map(|best| (best, evidence))
    }

    /// Events are missing. What was learned stays.
    pub(crate) fn lose(&mut self) {
        self.awaiting.clear();
        self.rung.clear();
    }
}
