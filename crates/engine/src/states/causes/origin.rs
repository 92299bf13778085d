//! The two ends of a cause, and its row.

use crate::{
    at::At,
    states::{Env, irqs::Irqs},
};
use serde::{Deserialize, Serialize};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::{CpuId, MachineId, Tid, VcpuId},
    interrupt::Context,
    table::{Cause, Row},
};

/// Where a cause happened, and by whom.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) ts: i64,
    pub(crate) machine: MachineId,
    pub(crate) cpu: Option<CpuId>,
    /// None for an interrupt, and where it may be one.
    pub(crate) tid: Option<Tid>,
    pub(crate) context: Option<Context>,
    /// Of the interrupt.
    pub(crate) vector: Option<i32>,
}

impl Origin {
    /// Of an event whose context is `told`; an open handler tells it otherwise. In none, the thread
    /// is the cause only if the handlers of all interrupts are recorded (`sees_all`).
    pub(crate) fn of(
        at: At,
        machine: MachineId,
        told: Option<Context>,
        (irqs, sees_all): (&Irqs, bool),
    ) -> Self {
        let (context, open) = irqs.within(told);
        let by_thread = context.map_or(sees_all, |context| !context.is_interrupt());
        Origin {
            ts: at.t,
            machine,
            cpu: Some(at.cpu),
            tid: by_thread.then_some(at.tid),
            context,
            vector: open.map(|open| open.handler.vector),
        }
    }

    /// Nobody's that is current: an interrupt's.
    pub(crate) fn is_interrupt(&self) -> bool {
        self.context.is_some_and(Context::is_interrupt)
    }
}

/// Whom a cause let go on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effect {
    pub(crate) ts: i64,
    pub(crate) machine: MachineId,
    pub(crate) cpu: Option<CpuId>,
    pub(crate) tid: Option<Tid>,
    pub(crate) vcpu: Option<VcpuId>,
}

impl Effect {
    /// In the thread that is current.
    pub(crate) fn here(at: At, machine: MachineId) -> Self {
        let (cpu, tid) = (Some(at.cpu), Some(at.tid));
        Effect { ts: at.t, machine, cpu, tid, vcpu: None }
    }

    /// In an interrupt on the CPU.
    pub(crate) fn handler(at: At, machine: MachineId) -> Self {
        Effect { tid: None, ..Effect::here(at, machine) }
    }
}

/// A cause with its effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) kind: CauseKind,
    pub(crate) from: Origin,
    pub(crate) to: Effect,
    pub(crate) id: Option<u64>,
    pub(crate) evidence: Evidence,
    pub(crate) candidates: u32,
    /// Of its length; none if it is not known.
    pub(crate) error_ns: Option<u64>,
}

impl Env<'_> {
    /// A lock that the current thread waited for was let go by who had it when the wait began. When that was,
    /// nothing tells: it is taken to be when the wait ended.
    pub(crate) fn unlocked(&mut self, at: At, lock: u64, owner: Tid) {
        let from = Origin {
            ts: at.t,
            machine: self.machine,
            cpu: None,
            tid: Some(owner),
            context: None,
            vector: None,
        };
        self.cause(Edge {
            kind: CauseKind::Lock,
            from,
            to: Effect::here(at, self.machine),
            id: Some(lock),
            evidence: Evidence::Context,
            candidates: 1,
            error_ns: Some(0),
        });
    }

    /// One row of the causes table.
    pub(crate) fn cause(&mut self, edge: Edge) {
        let Edge { kind, from, to, .. } = edge;
        if from.ts < self.start || !self.wants.causes {
            return;
        }
        self.sink.row(Row::Cause(Cause {
            ts: from.ts,
            dur: to.ts - from.ts,
            kind,
            machine_id: from.machine,
            cpu: from.cpu,
            tid: from.tid,
            vector: from.vector,
            context: from.context,
            to_machine_id: to.machine,
            to_cpu: to.cpu,
            to_tid: to.tid,
            to_vcpu: to.vcpu,
            id: edge.id,
            evidence: edge.evidence,
            candidates: edge.candidates,
            error_ns: edge.error_ns,
        }));
    }
}
