//! Interrupt and softirq handlers of one CPU.
//!
//! A hard interrupt is a line's or one of the CPU's own vectors (timer, IPIs). What happens while one
//! is open is its doing and not that of the thread that is current ([`Irqs::within`]).
//!
//! **Boundary state.** The handlers open on the CPU: hard interrupts nest (a stack, as some
//! architectures allow), softirqs do not. A handler whose start or end is not in the recording
//! makes no row.

use super::Env;
use serde::{Deserialize, Serialize};
use transect_model::{
    ids::CpuId,
    interrupt::{Context, IrqSource, VectorSource},
    table::{Irq, Row},
};

/// Deeper nesting than this is broken input.
const MAX_DEPTH: usize = 16;

/// What a handler serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handler {
    pub(crate) source: IrqSource,
    /// Line, softirq or vector, as the source says.
    pub(crate) vector: i32,
}

impl Handler {
    pub(crate) fn line(irq: i32) -> Self {
        Handler { source: IrqSource::Line, vector: irq }
    }

    /// One of the CPU's own vectors; none for a number that is none.
    pub(crate) fn vector(source: VectorSource, vector: u32) -> Option<Self> {
        let vector = i32::try_from(vector).ok()?;
        Some(Handler { source: IrqSource::Vector(source), vector })
    }

    pub(crate) fn softirq(vector: u32) -> Option<Self> {
        let vector = i32::try_from(vector).ok()?;
        Some(Handler { source: IrqSource::Softirq, vector })
    }
}

/// A handler that has begun.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Open {
    pub(crate) ts: i64,
    pub(crate) handler: Handler,
    /// The CPU's thread has changed since: its end was not recorded, or (`PREEMPT_RT`) it waits.
    left: bool,
}

/// The open handlers of one CPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Irqs {
    hard: Vec<Open>,
    soft: Option<Open>,
}

impl Irqs {
    pub(crate) fn hard_entry(&mut self, ts: i64, handler: Handler) {
        if self.hard.len() < MAX_DEPTH {
            self.hard.push(Open { ts, handler, left: false });
        }
    }

    pub(crate) fn hard_exit(&mut self, t: i64, handler: Handler, cpu: CpuId, env: &mut Env<'_>) {
        // Handlers above this one whose end was not recorded are dropped with it.
        if let Some(at) = self.hard.iter().rposition(|open| open.handler == handler) {
            let open = self.hard[at];
            self.hard.truncate(at);
            open.emit(t, cpu, env);
        }
    }

    pub(crate) fn soft_entry(&mut self, ts: i64, handler: Handler) {
        self.soft = Some(Open { ts, handler, left: false });
    }

    pub(crate) fn soft_exit(&mut self, t: i64, handler: Handler, cpu: CpuId, env: &mut Env<'_>) {
        if let Some(open) = self.soft.take().filter(|open| open.handler == handler) {
            open.emit(t, cpu, env);
        }
    }

    /// In which context something happens on this CPU now, and in which handler if one is open.
    /// `told` is what the event says of its context. Without that, only an open handler tells
    /// something: in none, the interrupt may be one that was not recorded.
    pub(crate) fn within(&self, told: Option<Context>) -> (Option<Context>, Option<Open>) {
        let is_here = |open: &Open| !open.left;
        let hard = self.hard.last().copied().filter(is_here);
        let soft = self.soft.filter(is_here);
        match told {
            Some(Context::Task | Context::Nmi) => (told, None),
            Some(Context::Irq) => (told, hard),
            Some(Context::Softirq) => (told, soft),
            None if hard.is_some() => (Some(Context::Irq), hard),
            None => (soft.map(|_| Context::Softirq), soft),
        }
    }

    /// The line whose handler runs, and since when.
    pub(crate) fn line(&self) -> Option<(i32, i64)> {
        let open = self.hard.last().filter(|open| !open.left)?;
        (open.handler.source == IrqSource::Line).then_some((open.handler.vector, open.ts))
    }

    /// Another thread gets the CPU: whatever happens from here on is in no handler that was open.
    pub(crate) fn switches(&mut self) {
        for open in self.hard.iter_mut().chain(&mut self.soft) {
            open.left = true;
        }
    }

    /// Events are missing: what was open is not known any more.
    pub(crate) fn lose(&mut self) {
        self.hard.clear();
        self.soft = None;
    }
}

impl Open {
    fn emit(self, t: i64, cpu: CpuId, env: &mut Env<'_>) {
        let Handler { source, vector } = self.handler;
        if self.ts >= env.start && env.wants.irqs {
            env.sink.row(Row::Irq(Irq {
                ts: self.ts,
                dur: t - self.ts,
                machine_id: env.machine,
                cpu,
                softirq: source == IrqSource::Softirq,
                source,
                vector,
            }));
        }
    }
}
