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

/// What was sent or queued.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Numbered {
    /// By machine and item: who queued it last.
    queued: BTreeMap<(MachineId, u64), Origin>,
    /// By flow and sequence number, with the order in which they were sent.
    sent: BTreeMap<(u32, u32), Origin>,
    order: VecDeque<(u32, u32)>,
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
    pub(crate) fn send(&mut self, flow: u32, seq: u32, from: Origin) {
        if self.sent.insert((flow, seq), from).is_none() {
            self.order.push_back((flow, seq));
        }
        if self.order.len() > MAX_SENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.sent.remove(&oldest);
        }
    }

    /// A packet that came from a driver: who sent it, if that was another machine. (Within one, it
    /// passes many devices.)
    pub(crate) fn receive(&mut self, flow: u32, seq: u32, machine: MachineId) -> Option<Origin> {
        self.sent.get(&(flow, seq)).copied().filter(|from| from.machine != machine)
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
