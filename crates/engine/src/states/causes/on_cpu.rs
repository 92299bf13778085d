//! Causes within one CPU: raised softirqs, what an interrupt was about, and a message interrupt on its
//! way to the vCPUs that accept it.

use super::{Edge, Effect, Origin};
use crate::{
    at::At,
    states::{Env, irqs::Open},
};
use serde::{Deserialize, Serialize};
use transect_model::{
    cause::{CauseKind, Evidence},
    ids::Tid,
    interrupt::{IrqSource, VectorSource},
};

/// Softirqs at most (`NR_SOFTIRQS` is 10; four bits in records).
const SOFTIRQS: usize = 16;
/// `TIMER_SOFTIRQ` and `HRTIMER_SOFTIRQ`.
const TIMERS: [i32; 2] = [1, 8];

/// What an interrupt was about, as far as it was seen.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct About {
    pub(crate) kind: CauseKind,
    pub(crate) ts: i64,
    pub(crate) id: Option<u64>,
}

/// A message interrupt.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Message {
    pub(crate) address: u64,
    pub(crate) data: u64,
}

impl Message {
    /// As a cause's id.
    pub(crate) fn id(self) -> u64 {
        (self.address & 0xffff_ffff) << 32 | self.data & 0xffff_ffff
    }
}

/// A message that may still be accepted: its thread, and the last event of the chain.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sent {
    message: Message,
    tid: Tid,
    last: i64,
}

/// What was done in a handler.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Done {
    about: About,
    /// When the handler began; none outside of any.
    within: Option<i64>,
}

/// What is known of the raises of a softirq since it ran.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
enum Raised {
    #[default]
    Not,
    First(Origin, u32),
    /// It may have been before: by whom first, is not known until it has run.
    Unknown,
}

/// What is on its way on one CPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct OnCpu {
    /// By softirq: who raised it first since it ran, and how often it was.
    raised: [Raised; SOFTIRQS],
    /// The last thing done, in a softirq and in a hard interrupt, which may interrupt that.
    done: [Option<Done>; 2],
    sent: Option<Sent>,
}

impl OnCpu {
    /// `softirq_raise`.
    pub(crate) fn raise(&mut self, vector: u32, from: Origin) {
        if let Some(raised) = self.raised.get_mut(vector as usize) {
            *raised = match *raised {
                Raised::Not => Raised::First(from, 1),
                Raised::First(first, count) => Raised::First(first, count.saturating_add(1)),
                Raised::Unknown => Raised::Unknown,
            };
        }
    }

    /// `softirq_entry`.
    pub(crate) fn softirq(&mut self, at: At, vector: u32, env: &mut Env<'_>) {
        let Some(raised) = self.raised.get_mut(vector as usize) else { return };
        if let Raised::First(from, candidates) = std::mem::take(raised) {
            env.cause(Edge {
                kind: CauseKind::Softirq,
                from,
                to: Effect::handler(at, env.machine),
                id: Some(vector.into()),
                evidence: Evidence::Id,
                candidates,
                error_ns: Some(0),
            });
        }
    }

    /// A block request is done, in that handler.
    pub(crate) fn completes(&mut self, ts: i64, id: u64, open: Option<Open>) {
        self.does(About { kind: CauseKind::Completion, ts, id: Some(id) }, open);
    }

    /// A packet has come.
    pub(crate) fn receives(&mut self, ts: i64, open: Option<Open>) {
        self.does(About { kind: CauseKind::Packet, ts, id: None }, open);
    }

    /// Which packet it is that has come last in that handler.
    pub(crate) fn names_packet(&mut self, id: u64, open: Option<Open>) {
        let of = |done: &&mut Done| {
            done.about.kind == CauseKind::Packet && done.within == open.map(|open| open.ts)
        };
        if let Some(done) = self.done[level(open)].as_mut().filter(of) {
            done.about.id = Some(id);
        }
    }

    fn does(&mut self, about: About, open: Option<Open>) {
        self.done[level(open)] = Some(Done { about, within: open.map(|open| open.ts) });
    }

    /// What a waking in this handler is about: what it saw to be done last, else what its source
    /// tells. None in a handler that was not recorded.
    pub(crate) fn about(&self, t: i64, open: Option<Open>) -> Option<About> {
        let open = open?;
        if let Some(done) = self.done[level(Some(open))].filter(|done| done.within == Some(open.ts))
        {
            return Some(done.about);
        }
        let kind = match open.handler.source {
            IrqSource::Vector(VectorSource::LocalTimer) => CauseKind::Timer,
            IrqSource::Softirq if TIMERS.contains(&open.handler.vector) => CauseKind::Timer,
            IrqSource::Vector(
                VectorSource::Reschedule
                | VectorSource::CallFunction
                | VectorSource::CallFunctionSingle
                | VectorSource::IrqWork,
            ) => CauseKind::Ipi,
            _ => return None,
        };
        Some(About { kind, ts: t, id: None })
    }

    /// `kvm_msi_set_irq`.
    pub(crate) fn sends(&mut self, at: At, message: Message) {
        self.sent = Some(Sent { message, tid: at.tid, last: at.t });
    }

    /// Events of the CPU are missing.
    pub(crate) fn lose(&mut self) {
        *self = OnCpu { raised: [Raised::Unknown; SOFTIRQS], ..OnCpu::default() };
    }

    /// The message that `kvm_apic_accept_irq` answers: sent by the same thread, with nothing between
    /// but its other receivers. `before` is the CPU's event before this one.
    pub(crate) fn accepts(&mut self, at: At, before: i64) -> Option<Message> {
        let sent = self.sent.as_mut().filter(|sent| sent.tid == at.tid && sent.last == before)?;
        sent.last = at.t;
        Some(sent.message)
    }
}

/// Where in [`OnCpu::done`] a handler's is.
fn level(open: Option<Open>) -> usize {
    usize::from(open.is_some_and(|open| open.handler.source != IrqSource::Softirq))
}
