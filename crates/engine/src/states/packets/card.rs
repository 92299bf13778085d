//! The network cards of a guest, as one of its vCPUs uses them.
//!
//! A doorbell that is rung while a driver gets a packet (between `net_dev_start_xmit` and `net_dev_xmit` on
//! that vCPU) is the card's, and for all packets that wait for one: a driver may ring once for several
//! (`netdev_xmit_more`). Which message tells that packets have come is learned by vote, of the handlers that ran
//! before them.

use crate::states::causes::delivery::{Delivered, is_sure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::{cause::Evidence, event::DeviceName};

/// Packets that wait for a doorbell, at most.
const MAX_AWAITING: usize = 1024;
/// Doorbells, and messages of one device, at most.
const MAX_KNOWN: usize = 1 << 8;

/// Address and data of a message interrupt.
pub(crate) type MessageKey = (u64, u64);

/// What is known of one vCPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Card {
    /// Packets that a driver got since the last doorbell.
    awaiting: Vec<u64>,
    /// Those for which the doorbell of the exit that is open was rung.
    rung: Vec<u64>,
    /// By doorbell: how often it was rung while a driver got a packet.
    rings: BTreeMap<u64, u64>,
    /// By device and message: how many packets came behind its handler.
    arrivals: BTreeMap<[u8; 16], BTreeMap<MessageKey, u64>>,
}

impl Card {
    /// A driver gets a packet.
    pub(crate) fn sends(&mut self, packet: u64) {
        if self.awaiting.last() != Some(&packet) && self.awaiting.len() < MAX_AWAITING {
            self.awaiting.push(packet);
        }
    }

    /// A doorbell, while a driver gets a packet: for which it is, and how well that is known.
    pub(crate) fn rings(&mut self, doorbell: u64) -> (&[u64], Evidence) {
        let rings = &mut self.rings;
        let all: u64 = rings.values().sum();
        let most = rings.get(&doorbell).copied().unwrap_or(0);
        let evidence = if is_sure(most, all) { Evidence::Id } else { Evidence::Context };
        if rings.len() < MAX_KNOWN || most > 0 {
            rings.insert(doorbell, most + 1);
        }
        self.rung = std::mem::take(&mut self.awaiting);
        (&self.rung, evidence)
    }

    /// Somebody goes on in the exit that is open: for these.
    pub(crate) fn answer(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.rung)
    }

    /// The exit is over.
    pub(crate) fn leave(&mut self) {
        self.rung.clear();
    }

    /// A packet has come from a device: `by` is the last handler that ran on this vCPU, behind whose beginning it
    /// was sent if `is_late`. The handler that led to it, or the message whose handler did on another vCPU.
    pub(crate) fn arrives(
        &mut self,
        device: DeviceName,
        by: Option<Delivered>,
        is_late: bool,
    ) -> Option<Result<(Delivered, Evidence), MessageKey>> {
        let key = by.and_then(|by| by.message).map(|message| (message.address, message.data));
        let room = self.arrivals.len() < MAX_KNOWN || self.arrivals.contains_key(&device.0);
        if let Some(key) = key.filter(|_| room && !is_late) {
            let messages = self.arrivals.entry(device.0).or_default();
            if messages.len() < MAX_KNOWN || messages.contains_key(&key) {
                *messages.entry(key).or_default() += 1;
            }
        }
        match (by, self.message_of(device)) {
            (Some(by), Some(known)) if key == Some(known) => Some(Ok((by, Evidence::Id))),
            (_, Some(known)) => Some(Err(known)),
            (Some(by), None) => Some(Ok((by, Evidence::Context))),
            (None, None) => None,
        }
    }

    /// The message of a device, if that is sure.
    fn message_of(&self, device: DeviceName) -> Option<MessageKey> {
        let messages = self.arrivals.get(&device.0)?;
        let (message, most) = messages.iter().max_by_key(|(_, count)| **count)?;
        is_sure(*most, messages.values().sum()).then_some(*message)
    }

    /// Events are missing. What was learned stays.
    pub(crate) fn lose(&mut self) {
        self.awaiting.clear();
        self.rung.clear();
    }
}
