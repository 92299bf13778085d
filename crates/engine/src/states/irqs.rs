//! Interrupt and softirq handlers of one CPU.
//!
//! **Boundary state.** The handlers open on the CPU: hard interrupts nest (a stack, as some
//! architectures allow), softirqs do not. A handler whose start or end is not in the recording
//! makes no row.

use super::Env;
use serde::{Deserialize, Serialize};
use transect_model::{
    ids::CpuId,
    table::{Irq, Row},
};

/// Deeper nesting than this is broken input.
const MAX_DEPTH: usize = 16;

/// The open handlers of one CPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Irqs {
    hard: Vec<(i64, i32)>,
    soft: Option<(i64, u32)>,
}

impl Irqs {
    pub(crate) fn hard_entry(&mut self, t: i64, irq: i32) {
        if self.hard.len() < MAX_DEPTH {
            self.hard.push((t, irq));
        }
    }

    pub(crate) fn hard_exit(&mut self, t: i64, irq: i32, cpu: CpuId, env: &mut Env<'_>) {
        // Handlers above this one whose end was not recorded are dropped with it.
        if let Some(at) = self.hard.iter().rposition(|open| open.1 == irq) {
            let (ts, _) = self.hard[at];
            self.hard.truncate(at);
            emit(ts, t, cpu, false, irq, env);
        }
    }

    pub(crate) fn soft_entry(&mut self, t: i64, vector: u32) {
        self.soft = Some((t, vector));
    }

    pub(crate) fn soft_exit(&mut self, t: i64, vector: u32, cpu: CpuId, env: &mut Env<'_>) {
        if let Some((ts, open)) = self.soft.take()
            && open == vector
            && let Ok(vector) = i32::try_from(vector)
        {
            emit(ts, t, cpu, true, vector, env);
        }
    }

    /// Events are missing: what was open is not known any more.
    pub(crate) fn lose(&mut self) {
        self.hard.clear();
        self.soft = None;
    }
}

fn emit(ts: i64, t: i64, cpu: CpuId, softirq: bool, vector: i32, env: &mut Env<'_>) {
    if ts >= env.start && env.wants.irqs {
        env.sink.row(Row::Irq(Irq {
            ts,
            dur: t - ts,
            machine_id: env.machine,
            cpu,
            softirq,
            vector,
        }));
    }
}
