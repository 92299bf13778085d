//! Who had a pCPU lately: behind whom a vCPU waited that comes to run on it.
//!
//! No record says on which pCPU's queue a woken vCPU stands (credit2's queues even serve several), so
//! its wait is told when it ends: it waited behind whoever had the pCPU it then got.
//!
//! **Boundary state.** The last [`KEPT`] changes.

use crate::states::vcpu::By;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Changes kept of each pCPU; what a longer wait's beginning was behind is not known.
const KEPT: usize = 128;

/// The last changes of who has a pCPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct History {
    /// Since when, who.
    changes: VecDeque<(i64, By)>,
}

impl History {
    /// From `t` on it is `by`'s.
    #[inline]
    pub(crate) fn push(&mut self, t: i64, by: By) {
        if self.changes.back().is_some_and(|(_, last)| *last == by) {
            return;
        }
        if self.changes.len() == KEPT {
            self.changes.pop_front();
        }
        self.changes.push_back((t, by));
    }

    /// Nothing is known of it any more.
    pub(crate) fn forget(&mut self) {
        self.changes.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Who had it from `from` on: until when each, the last one until `i64::MAX`. It begins with nobody where
    /// `from` is before what is kept.
    pub(crate) fn since(&self, from: i64) -> impl Iterator<Item = (i64, By)> {
        let first = self.changes.partition_point(|(t, _)| *t <= from);
        let ends = self.changes.range(first..).map(|(t, _)| *t).chain([i64::MAX]);
        let before = first.checked_sub(1).map_or(By::default(), |at| self.changes[at].1);
        ends.zip(std::iter::once(before).chain(self.changes.range(first..).map(|(_, by)| *by)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transect_model::ids::MachineId;

    fn by(machine: u32) -> By {
        By { machine: Some(MachineId(machine)), tid: None }
    }

    fn since(history: &History, from: i64) -> Vec<(i64, By)> {
        history.since(from).collect()
    }

    #[test]
    fn a_wait_is_cut_where_the_pcpu_changed_hands() {
        let mut history = History::default();
        assert_eq!(since(&history, 5), [(i64::MAX, By::default())]);
        history.push(10, by(1));
        history.push(15, by(1));
        history.push(20, by(2));
        assert_eq!(since(&history, 5), [(10, By::default()), (20, by(1)), (i64::MAX, by(2))]);
        assert_eq!(since(&history, 10), [(20, by(1)), (i64::MAX, by(2))]);
        assert_eq!(since(&history, 30), [(i64::MAX, by(2))]);
        history.forget();
        assert!(history.is_empty());
    }

    #[test]
    fn only_the_last_changes_are_kept() {
        let mut history = History::default();
        for t in 0..1000 {
            history.push(t, by(u32::try_from(t).unwrap()));
        }
        assert_eq!(history.changes.len(), KEPT);
        assert_eq!(since(&history, 0)[0].1, By::default());
    }
}
