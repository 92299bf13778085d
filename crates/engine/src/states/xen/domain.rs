//! What the vCPUs of a domain do together; definitions are xenalyze's (`domain_runstate`, Xen 4.17),
//! but for lost records: where one vCPU's runstate is not known the domain's state is `unknown`,
//! unless what is known of the others settles it.
//!
//! **Boundary state.** How many vCPUs are in each runstate, and the open interval.

use crate::states::Env;
use serde::{Deserialize, Serialize};
use transect_model::{
    ids::MachineId,
    state::DomainState,
    table::{DomainStateRow, Row},
    xen::Runstate,
};

/// How many vCPUs are in each runstate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts {
    running: u32,
    runnable: u32,
    /// Blocked or offline.
    asleep: u32,
    unknown: u32,
}

impl Counts {
    fn of(&mut self, runstate: Option<Runstate>) -> &mut u32 {
        match runstate {
            Some(Runstate::Running) => &mut self.running,
            Some(Runstate::Runnable) => &mut self.runnable,
            Some(Runstate::Blocked | Runstate::Offline) => &mut self.asleep,
            None => &mut self.unknown,
        }
    }

    fn state(self) -> DomainState {
        match self {
            Counts { running: 1.., runnable: 1.., .. } => DomainState::ConcurrencyHazard,
            Counts { unknown: 1.., .. } => DomainState::Unknown,
            Counts { running: 1.., asleep: 0, .. } => DomainState::FullRun,
            Counts { running: 1.., .. } => DomainState::PartialRun,
            Counts { runnable: 1.., asleep: 0, .. } => DomainState::FullContention,
            Counts { runnable: 1.., .. } => DomainState::PartialContention,
            Counts { .. } => DomainState::Blocked,
        }
    }
}

/// One domain between two records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Domain {
    pub(crate) machine: MachineId,
    /// Places of its vCPUs in the list of Xen's.
    pub(crate) vcpus: Vec<usize>,
    counts: Counts,
    /// The open interval; none before the first vCPU is seen.
    open: Option<(DomainState, i64)>,
}

impl Domain {
    pub(crate) fn new(machine: MachineId) -> Self {
        Domain { machine, vcpus: Vec::new(), counts: Counts::default(), open: None }
    }

    /// A vCPU is new; its runstate is known since `from`.
    pub(crate) fn joined(&mut self, from: i64, runstate: Option<Runstate>, env: &mut Env<'_>) {
        *self.counts.of(runstate) += 1;
        // Only the first one tells of a time that is over.
        let from = self.open.map_or(from, |(_, since)| from.max(since));
        self.update(from, env);
    }

    /// A vCPU's runstate changes at `t`.
    pub(crate) fn changed(
        &mut self,
        t: i64,
        old: Option<Runstate>,
        new: Option<Runstate>,
        env: &mut Env<'_>,
    ) {
        if old == new {
            return;
        }
        let count = self.counts.of(old);
        *count = count.saturating_sub(1);
        *self.counts.of(new) += 1;
        self.update(t, env);
    }

    fn update(&mut self, t: i64, env: &mut Env<'_>) {
        let state = self.counts.state();
        match &mut self.open {
            None => self.open = Some((state, t.max(env.start))),
            Some((open, _)) if *open == state => {}
            Some((open, since)) => {
                let done = (*open, *since);
                (*open, *since) = (state, t.max(*since));
                emit(self.machine, done, t, env);
            }
        }
    }

    /// Emits what is open.
    pub(crate) fn finish(&mut self, end: i64, env: &mut Env<'_>) {
        if let Some(open) = self.open.take() {
            emit(self.machine, open, end, env);
        }
    }
}

fn emit(machine_id: MachineId, (state, ts): (DomainState, i64), end: i64, env: &mut Env<'_>) {
    if end > ts && env.wants.domain_states {
        let dur = end - ts;
        env.sink.row(Row::DomainState(DomainStateRow { ts, dur, machine_id, state }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_xenalyzes() {
        let state = |running, runnable, asleep, unknown| {
            Counts { running, runnable, asleep, unknown }.state()
        };
        assert_eq!(state(2, 0, 0, 0), DomainState::FullRun);
        assert_eq!(state(1, 0, 1, 0), DomainState::PartialRun);
        assert_eq!(state(1, 1, 1, 0), DomainState::ConcurrencyHazard);
        assert_eq!(state(0, 1, 1, 0), DomainState::PartialContention);
        assert_eq!(state(0, 2, 0, 0), DomainState::FullContention);
        assert_eq!(state(0, 0, 2, 0), DomainState::Blocked);
        assert_eq!(state(1, 0, 1, 1), DomainState::Unknown);
        assert_eq!(state(1, 1, 0, 1), DomainState::ConcurrencyHazard, "whatever the third does");
    }
}
