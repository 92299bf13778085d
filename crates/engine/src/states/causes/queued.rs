//! Causes joined by the number of a work item, which both ends carry.

use super::{Edge, Effect, Origin};
use crate::{at::At, states::Env};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::MachineId,
};

/// More items queued and not begun than this are broken input, or of queues that are not recorded.
const MAX_QUEUED: usize = 1 << 16;

/// What was queued.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Queued {
    /// By machine and item: who queued it last.
    works: BTreeMap<(MachineId, u64), Origin>,
}

impl Queued {
    /// `workqueue_queue_work`. An item that is queued already is not queued again, and the kernel
    /// traces it only when it is.
    pub(crate) fn queue(&mut self, work: u64, from: Origin) {
        if self.works.len() >= MAX_QUEUED {
            self.works.clear();
        }
        self.works.insert((from.machine, work), from);
    }

    /// `workqueue_execute_start`.
    pub(crate) fn begins(&mut self, at: At, work: u64, env: &mut Env<'_>) {
        if let Some(from) = self.works.remove(&(env.machine, work)) {
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

    /// Events are missing: causes of what comes may be among them.
    pub(crate) fn lose(&mut self) {
        *self = Queued::default();
    }
}
