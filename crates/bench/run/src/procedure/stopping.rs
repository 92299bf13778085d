//! When a workload has been measured often enough.

use super::run::Run;
use crate::{
    journal::{Entry, Stop},
    ledger::{self, Lossy},
};
use transect_bench_core::Fault;
use transect_bench_stats::design::{self, Step};

impl Run<'_> {
    /// After a block: which workloads are done?
    pub(super) fn look(&mut self) -> Result<(), Fault> {
        let ledger = ledger::ledger_of(&self.plan, &self.state, Lossy::Counted)?;
        let decision = design::decide(&ledger, &ledger::goal_of(&self.plan));
        for (workload, progress) in decision.workloads {
            if progress.step == Step::Continue || self.state.stopped.contains_key(&workload) {
                continue;
            }
            let blocks = u32::try_from(progress.tried).unwrap_or(u32::MAX);
            let is_precise = progress.step == Step::Enough;
            self.write(Entry::Stopped(Stop { workload, blocks, is_precise }))?;
        }
        Ok(())
    }
}
