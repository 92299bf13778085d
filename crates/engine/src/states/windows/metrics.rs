//! The sums of one actor in one window.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use transect_model::state::{Metric, ThreadState, VcpuState};

/// The sums of one actor in one window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metrics {
    pub(super) executions: u64,
    pub(super) gotten_ns: i64,
    pub(super) waited_ns: i64,
    pub(super) blocked_ns: i64,
    pub(super) offline_ns: i64,
    pub(super) unknown_ns: i64,
    pub(super) guest_ns: i64,
    pub(super) halted_ns: i64,
    pub(super) slices: i64,
    pub(super) slices_ns: i64,
    pub(super) slice_min_ns: Option<i64>,
    pub(super) slice_max_ns: Option<i64>,
    pub(super) io_count: u64,
    pub(super) exits: u64,
}

impl Metrics {
    /// Adds another shard's or actor's sums.
    pub(crate) fn add(&mut self, other: &Metrics) {
        self.gotten_ns += other.gotten_ns;
        self.waited_ns += other.waited_ns;
        self.blocked_ns += other.blocked_ns;
        self.offline_ns += other.offline_ns;
        self.unknown_ns += other.unknown_ns;
        self.halted_ns += other.halted_ns;
        self.add_counts(other);
    }

    /// Of another's sums those that do not divide a pCPU's time.
    pub(super) fn add_counts(&mut self, other: &Metrics) {
        self.guest_ns += other.guest_ns;
        self.executions += other.executions;
        self.slices += other.slices;
        self.slices_ns += other.slices_ns;
        self.slice_min_ns = [self.slice_min_ns, other.slice_min_ns].into_iter().flatten().min();
        self.slice_max_ns = self.slice_max_ns.max(other.slice_max_ns);
        self.io_count = self.io_count.saturating_add(other.io_count);
        self.exits += other.exits;
    }

    pub(super) fn add_vcpu(&mut self, state: VcpuState, ns: i64) {
        match state.metric() {
            Metric::Gotten => self.gotten_ns += ns,
            Metric::Waited => self.waited_ns += ns,
            Metric::Blocked => self.blocked_ns += ns,
            Metric::Offline => self.offline_ns += ns,
            Metric::Unknown => self.unknown_ns += ns,
        }
        match state {
            VcpuState::Guest => self.guest_ns += ns,
            VcpuState::Halted => self.halted_ns += ns,
            _ => {}
        }
    }

    pub(super) fn add_thread(&mut self, state: ThreadState, ns: i64) {
        match state {
            ThreadState::Running => self.gotten_ns += ns,
            ThreadState::Runnable => self.waited_ns += ns,
            ThreadState::Blocked => self.blocked_ns += ns,
            ThreadState::Unknown => self.unknown_ns += ns,
        }
    }

    pub(super) fn add_slice(&mut self, ns: i64) {
        self.slices += 1;
        self.slices_ns += ns;
        self.slice_min_ns = Some(self.slice_min_ns.map_or(ns, |min| min.min(ns)));
        self.slice_max_ns = Some(self.slice_max_ns.map_or(ns, |max| max.max(ns)));
    }
}

/// The unfinished windows of one actor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Series {
    /// Number of the first window kept.
    pub(super) first: i64,
    kept: VecDeque<Metrics>,
}

impl Series {
    /// The metrics of window `at`; none if that window was emitted already.
    pub(super) fn at(&mut self, at: i64) -> Option<&mut Metrics> {
        let offset = usize::try_from(at - self.first).ok()?;
        if offset >= self.kept.len() {
            self.kept.resize(offset + 1, Metrics::default());
        }
        self.kept.get_mut(offset)
    }

    /// Forgets the first `windows` windows; the next one is number 0 from now on.
    pub(super) fn shift(&mut self, windows: i64) {
        while self.first < windows {
            let _ = self.pop();
        }
        self.first -= windows;
    }

    pub(super) fn pop(&mut self) -> Metrics {
        self.first += 1;
        self.kept.pop_front().unwrap_or_default()
    }
}

/// What a vCPU did in the window it is in, not yet added to anybody's sums.
///
/// Several actors count what a vCPU does, and it changes its state a million times in a window: so
/// that is added up here, and handed on when the vCPU leaves the window or the pCPU.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    pub(super) window: i64,
    /// Stamps that belong here: [from, to).
    from: i64,
    to: i64,
    sums: Metrics,
    /// By the number of the state.
    state_ns: [i64; VcpuState::ALL.len()],
}

impl Tally {
    /// For the window of this number, which has the stamps [from, to).
    pub(super) fn new(window: i64, from: i64, to: i64) -> Self {
        Tally { window, from, to, ..Tally::default() }
    }

    #[inline]
    pub(super) fn covers(&self, t: i64) -> bool {
        self.from <= t && t < self.to
    }

    /// Adds time in a state; false if it is not all in this window, or reaches to its very end.
    #[inline]
    pub(super) fn add(&mut self, state: VcpuState, from: i64, to: i64) -> bool {
        let inside = self.from <= from && to < self.to;
        if inside {
            self.state_ns[state as usize] += to - from;
        }
        inside
    }

    /// What is counted and not timed.
    #[inline]
    pub(super) fn counts(&mut self) -> &mut Metrics {
        &mut self.sums
    }

    /// Gives the sums away and begins anew.
    pub(super) fn take(&mut self) -> Metrics {
        let mut sums = std::mem::take(&mut self.sums);
        for (state, ns) in VcpuState::ALL.into_iter().zip(&mut self.state_ns) {
            sums.add_vcpu(state, std::mem::take(ns));
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_numbered_in_their_order() {
        for (at, state) in VcpuState::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, at);
        }
    }
}
