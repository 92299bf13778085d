//! Requests that are done, until whoever waited for them runs.
//!
//! **Boundary state.** The last requests that were completed: a waking may follow, and the woken thread
//! get its CPU later. A hole in the machine's streams ends that.

use super::{Named, Stages, Told, WokenFor};
use crate::states::{Env, causes::on_cpu::About};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use transect_model::{cause::CauseKind, ids::Tid, table::Row};

/// Requests that wait for it, at most.
const MAX_WAITING: usize = 1024;

/// A request that is done, and what the waking that follows calls it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) told: Told,
    pub(crate) stages: Stages,
    pub(crate) named: Named,
    pub(crate) about: About,
}

/// The completed requests of one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Waking {
    done: VecDeque<Done>,
}

impl Waking {
    /// A request is done.
    pub(crate) fn add(&mut self, done: Done, env: &mut Env<'_>) {
        if self.done.len() >= MAX_WAITING
            && let Some(oldest) = self.done.pop_front()
        {
            oldest.emit(env);
        }
        self.done.push_back(done);
    }

    /// A thread is woken about that.
    pub(crate) fn wakes(&mut self, about: About, woken: WokenFor) {
        if let Some(at) = self.find(about) {
            self.done[at].told.wake.get_or_insert(woken);
        }
    }

    /// A thread that was woken at `woken`, about that, gets a CPU.
    pub(crate) fn runs(
        &mut self,
        about: About,
        (woken, t): (i64, i64),
        tid: Tid,
        env: &mut Env<'_>,
    ) {
        let Some(at) = self.find(about) else { return };
        if self.done[at].told.wake.is_none_or(|told| (told.ts, told.tid) != (woken, tid)) {
            return;
        }
        if let Some(mut done) = self.done.remove(at) {
            done.told.run = Some(t);
            done.emit(env);
        }
    }

    fn find(&self, about: About) -> Option<usize> {
        if about.kind != CauseKind::Completion {
            return None;
        }
        let is_it = |done: &Done| (done.about.ts, done.about.id) == (about.ts, about.id);
        self.done.iter().rposition(is_it)
    }

    /// Nothing more is known of any.
    pub(crate) fn finish(&mut self, env: &mut Env<'_>) {
        for done in std::mem::take(&mut self.done) {
            done.emit(env);
        }
    }
}

impl Done {
    fn emit(self, env: &mut Env<'_>) {
        env.io_request(&self.stages, &self.told, self.named);
    }
}

impl Env<'_> {
    /// One row of the table.
    pub(crate) fn io_request(&mut self, stages: &Stages, told: &Told, named: Named) {
        if told.ts < self.start || !self.wants.io_requests {
            return;
        }
        let is_virtual = !self.is_dom0 && self.vcpu_of_cpu.iter().any(Option::is_some);
        let row = stages.row(told, named, (self.machine, is_virtual));
        self.sink.row(Row::from(row));
    }
}
