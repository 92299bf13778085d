//! Work items: start to end of one function in a kernel worker.
//!
//! A worker runs one item at a time, but queues that run in softirqs (`WQ_BH`, Linux 6.9) run
//! theirs in the name of whatever thread is interrupted, another item's worker or the idle thread
//! included. An item is therefore known by its thread and its address.
//!
//! **Boundary state.** The open items. An end without a start makes no row. A start without an end,
//! or with a hole that may hide the end, makes one with null `dur`.

use super::Env;
use crate::at::At;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transect_model::{
    ids::{CpuId, Tid},
    table::{Row, WorkItem},
};

/// More open items than workers can be are broken input: all are given up, as in a hole.
const MAX_OPEN: usize = 1 << 16;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Open {
    ts: i64,
    cpu: CpuId,
    function: u64,
}

/// The open work items of one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Works {
    /// By thread, CPU (for the idle threads, which share a number) and item.
    open: BTreeMap<(Tid, Option<CpuId>, u64), Open>,
    /// How often too many were open.
    pub(crate) given_up: u64,
}

impl Works {
    /// `workqueue_execute_start`.
    pub(crate) fn start(&mut self, at: At, work: u64, function: u64, env: &mut Env<'_>) {
        let key = key(at, work);
        let begun = Open { ts: at.t, cpu: at.cpu, function };
        if self.open.len() >= MAX_OPEN {
            self.given_up += 1;
            self.finish(env);
        }
        if let Some(open) = self.open.insert(key, begun) {
            open.emit(at.tid, None, env);
        }
    }

    /// `workqueue_execute_end`.
    pub(crate) fn end(&mut self, at: At, work: u64, env: &mut Env<'_>) {
        if let Some(open) = self.open.remove(&key(at, work)) {
            open.emit(at.tid, Some(at.t), env);
        }
    }

    /// Events about the thread may be missing.
    pub(crate) fn lose_thread(&mut self, tid: Tid, env: &mut Env<'_>) {
        if !self.open.is_empty() {
            self.close(|key| key.0 == tid, env);
        }
    }

    /// Events of the CPU's idle thread are missing.
    pub(crate) fn lose_idle(&mut self, cpu: CpuId, env: &mut Env<'_>) {
        if !self.open.is_empty() {
            self.close(|key| key.1 == Some(cpu), env);
        }
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, env: &mut Env<'_>) {
        self.close(|_| true, env);
    }

    fn close(&mut self, concerns: impl Fn(&(Tid, Option<CpuId>, u64)) -> bool, env: &mut Env<'_>) {
        self.open.retain(|key, open| {
            let lost = concerns(key);
            if lost {
                open.emit(key.0, None, env);
            }
            !lost
        });
    }
}

fn key(at: At, work: u64) -> (Tid, Option<CpuId>, u64) {
    (at.tid, at.tid.is_idle().then_some(at.cpu), work)
}

impl Open {
    fn emit(self, tid: Tid, end: Option<i64>, env: &mut Env<'_>) {
        if self.ts < env.start || !env.wants.work_items {
            return;
        }
        env.sink.row(Row::WorkItem(WorkItem {
            ts: self.ts,
            dur: end.map(|t| t - self.ts),
            machine_id: env.machine,
            cpu: self.cpu,
            tid,
            function: self.function,
        }));
    }
}
