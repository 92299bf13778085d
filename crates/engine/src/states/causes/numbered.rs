//! Causes joined by a number that both ends carry: work items and packets.

use super::{Edge, Effect, Origin};
use crate::{at::At, states::Env};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::MachineId,
};

/// More items queued and not begun than this are broken input, or of queues that are not recorded.
const MAX_QUEUED: usize = 1 << 16;
/// Packets that may still arrive somewhere: the last so many sent.
const MAX_SENT: usize = 1 << 14;

/// Flow and sequence number.
type Packet = (u32, u32);

/// Sent packets that share flow and number (bare acknowledgements of one state), at most.
const MAX_ALIKE: usize = 64;

/// A packet that was handed to a driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sent {
    from: Origin,
    /// The machine's buffer of it: the same on its way through devices stacked on another.
    skb: u64,
    /// Machines that have received it.
    by: Vec<MachineId>,
    /// One of them has sent it on.
    is_forwarded: bool,
}

/// What was sent or queued.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Numbered {
    /// By machine and item: who queued it last.
    queued: BTreeMap<(MachineId, u64), Origin>,
    /// By flow and sequence number, in the order in which they were sent.
    sent: BTreeMap<Packet, VecDeque<Sent>>,
    order: VecDeque<Packet>,
}

impl Numbered {
    /// `workqueue_queue_work`. An item that is queued already is not queued again, and the kernel
    /// traces it only when it is.
    pub(crate) fn queue(&mut self, work: u64, from: Origin) {
        if self.queued.len() >= MAX_QUEUED {
            self.queued.clear();
        }
        self.queued.insert((from.machine, work), from);
    }

    /// `workqueue_execute_start`.
    pub(crate) fn begins(&mut self, at: At, work: u64, env: &mut Env<'_>) {
        if let Some(from) = self.queued.remove(&(env.machine, work)) {
            env.cause(Edge {
                kind: CauseKind::Work,
                from,
                to: Effect::here(at, env.machine),
                id: Some(work),
                evidence: Evidence::Id,
                candidates: 1,
                error_ns: Some(0),
            });
        }
    }

    /// A packet that was handed to a driver.
    pub(crate) fn send(&mut self, packet: Packet, skb: u64, from: Origin) {
        let alike = self.sent.entry(packet).or_default();
        for sent in alike.iter_mut() {
            sent.is_forwarded |= sent.by.contains(&from.machine);
        }
        let is_same = |last: &&mut Sent| {
            last.skb == skb && last.from.machine == from.machine && last.by.is_empty()
        };
        if let Some(last) = alike.back_mut().filter(is_same) {
            last.from = from;
            return;
        }
        alike.push_back(Sent { from, skb, by: Vec::new(), is_forwarded: false });
        if alike.len() > MAX_ALIKE {
            alike.pop_front();
            return;
        }
        self.order.push_back(packet);
        if self.order.len() > MAX_SENT
            && let Some(oldest) = self.order.pop_front()
            && let Some(alike) = self.sent.get_mut(&oldest)
        {
            alike.pop_front();
            if alike.is_empty() {
                self.sent.remove(&oldest);
            }
        }
    }

    /// A packet that came from a driver: who sent it, if that was another machine (within one, it
    /// passes many devices), and of how many that one is the first: what is alike keeps its order.
    pub(crate) fn receive(&mut self, packet: Packet, machine: MachineId) -> Option<(Origin, u32)> {
        let is_new = |sent: &&mut Sent| {
            sent.from.machine != machine && !sent.is_forwarded && !sent.by.contains(&machine)
        };
        let mut fit = self.sent.get_mut(&packet)?.iter_mut().filter(is_new);
        let first = fit.next()?;
        first.by.push(machine);
        let from = first.from;
        Some((from, 1 + u32::try_from(fit.count()).unwrap_or(0)))
    }

    /// Events are missing: causes of what comes may be among them.
    pub(crate) fn lose(&mut self) {
        *self = Numbered::default();
    }
}

/// Flow and sequence number as a cause's id.
pub(crate) fn packet_id(flow: u32, seq: u32) -> u64 {
    u64::from(flow) << 32 | u64::from(seq)
}
