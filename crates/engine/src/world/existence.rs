//! Since when a thread is known to exist, and whether all events about it were recorded.

use super::Machine;
use crate::{
    states::{slots::Slot, thread::Place},
    topology::ThreadInfo,
};
use transect_model::ids::Tid;

impl Machine {
    /// Were the events of some threads only recorded?
    pub(crate) fn is_filtered(&self) -> bool {
        self.filter.threads.is_some()
    }

    /// Is a name of the thread known from outside of the events?
    pub(crate) fn has_name(&self, tid: Tid) -> bool {
        self.known.get(&tid.0).is_some_and(|known| !known.name.is_empty())
    }

    /// Decides whether all events about a thread were recorded, from what is known about it.
    pub(super) fn judge(&mut self, slot: Slot) {
        let Some(filter) = &self.filter.threads else { return };
        let thread = self.threads.get_mut(slot);
        // The only thread that a process is named after is its first one.
        let pid = thread.pid.or((thread.place == Place::Unknown).then_some(thread.tid));
        thread.whole = filter.passes(thread.tid, pid, thread.cgroup_name.as_deref());
        if !thread.whole {
            thread.never_known();
        }
    }

    /// Takes what the fork says about a new thread's process.
    pub(crate) fn take_child(&mut self, slot: Slot, pid: Option<Tid>) {
        let thread = self.threads.get_mut(slot);
        if pid.is_some() {
            thread.pid = pid;
        }
        self.judge(slot);
    }

    /// A thread whose birth is recorded without its fork: its group is that of a parent that is not known. With
    /// a filter, the event was recorded for the thread's own sake, unless its parent passes.
    pub(crate) fn take_foundling(&mut self, slot: Slot, parent: Option<Slot>) {
        let parent = parent.map(|parent| self.threads.get(parent));
        let parent_fails = parent.is_some_and(|parent| !parent.whole && parent.pid.is_some());
        let is_filtered = self.is_filtered();
        let thread = self.threads.get_mut(slot);
        thread.cgroup = None;
        thread.cgroup_name = None;
        if is_filtered {
            thread.whole = parent_fails;
        }
    }

    /// From when on a thread that is first seen `now` is known to have existed: since the streams are
    /// complete, because its birth would have been recorded, or since a task snapshot says so.
    pub(super) fn first_sign_of(&self, tid: Tid, start: i64, now: i64) -> i64 {
        let complete_from = match self.threads.known_from {
            from if from <= now => from,
            _ => now,
        };
        let seen_from = complete_from.max(start);
        match self.known.get(&tid.0) {
            Some(ThreadInfo { born: Some(born), .. }) => seen_from.min((*born).max(start)),
            Some(_) => start,
            None => seen_from,
        }
    }
}
