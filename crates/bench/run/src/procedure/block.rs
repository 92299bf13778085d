//! A block: sets of machines one after the other, and on each its runs.

use super::{
    exclusions, limits,
    machines::Machines,
    order::{self, Unit},
    run::{Run, Went, unix_ns},
    sentinel,
};
use crate::{
    journal::{CellResult, Ended, Entry, Opened, Outcome, RunKey, Started, stands},
    plan::{Cell, Label},
};
use transect_bench_core::{Fault, RunResult, crew, protocol::Role};
use transect_bench_workloads::{self as workloads, MeasuredBy, memory_loss};

impl Run<'_> {
    /// Carries out what of a block is not done yet.
    pub(super) fn block(&mut self, block: u32) -> Result<Went, Fault> {
        let is_begun = self.state.blocks().contains(&block);
        if !is_begun {
            self.write(Entry::Sentinel { block, took_s: sentinel::took_s() })?;
        }
        for unit in order::of_block(&self.plan, &self.cells, block) {
            let mut runs = unit.runs.iter();
            if runs.all(|(cell, label)| self.is_over(&key_of(block, cell, *label))) {
                continue;
            }
            if self.must_stop() || self.booted_for(&unit)? == Went::Down {
                return Ok(Went::Down);
            }
            self.unit(block, &unit)?;
        }
        if !self.must_stop() {
            self.write(Entry::Sentinel { block, took_s: sentinel::took_s() })?;
        }
        Ok(Went::On)
    }

    /// Has it come to an end, or will it not be tried?
    fn is_over(&self, key: &RunKey) -> bool {
        self.state.is_done(key) || !self.goes_on(&key.cell)
    }

    /// The runs that share machines. They are opened for the first that is still to be done, and anew after one that
    /// failed: what it left behind is not known.
    fn unit(&mut self, block: u32, unit: &Unit) -> Result<(), Fault> {
        let mut machines = None;
        for (cell, label) in &unit.runs {
            let key = key_of(block, cell, *label);
            while !self.must_stop() && !self.is_over(&key) {
                self.attempt(&key, unit, &mut machines)?;
            }
        }
        machines.map_or(Ok(()), Machines::close)
    }

    fn attempt(
        &mut self,
        key: &RunKey,
        unit: &Unit,
        machines: &mut Option<Machines>,
    ) -> Result<(), Fault> {
        let attempt = self.state.attempts.get(key).copied().unwrap_or(0) + 1;
        let id = format!("r{:05}", self.state.started + 1);
        let started = Started { id: id.clone(), key: key.clone(), attempt, unix_ns: unix_ns() };
        self.write(Entry::Started(started))?;
        let result = self.measure(key, &id, unit, machines);
        if self.must_stop() && result.is_err() {
            // Ended from outside: not a fault of anybody's, and done again when it goes on.
            return Ok(());
        }
        let family = key.cell.group.about()?.family;
        let outcome = match result {
            Ok(mut result) => {
                let accelerator = machines.as_ref().map(Machines::accelerator).unwrap_or_default();
                result.limiter = limits::of(&result, accelerator, family);
                result.excluded = exclusions::of(&result, &self.plan.procedure);
                Outcome::Measured(result)
            }
            Err(fault) => self.faulted(key, fault, machines),
        };
        self.write(Entry::Ended(Box::new(Ended { id, key: key.clone(), outcome })))
    }

    fn measure(
        &mut self,
        key: &RunKey,
        id: &str,
        unit: &Unit,
        machines: &mut Option<Machines>,
    ) -> Result<CellResult, Fault> {
        let job = self.plan.job(&key.cell, id.to_owned());
        // Both measurements of the reference, and all tracer arms of a block, do the same work.
        let seed = self.plan.seed.wrapping_add(u64::from(key.block));
        let job = transect_bench_core::Job { seed, ..job };
        let workload = workloads::named(&key.cell.group.workload)?;
        match workload.measured_by() {
            MeasuredBy::Workload => {
                let machines = match machines {
                    Some(machines) => machines,
                    None => machines.insert(self.open(key.block, unit)?),
                };
                let ran = machines.run(&job, &self.plan, &key.cell, self.must_stop, |_| ());
                let (mut result, ()) = ran?;
                let roles: Vec<(Role, &RunResult)> =
                    result.parts.iter().map(|part| (part.role, &part.result)).collect();
                result.metrics = crew::combine(&workload.about(), &roles)?;
                Ok(result)
            }
            MeasuredBy::Opening => {
                machines.take().map_or(Ok(()), Machines::close)?;
                let opened = machines.insert(self.open(key.block, unit)?);
                let metrics = workloads::boot::metrics(opened.took())?;
                Ok(CellResult { metrics, ..CellResult::default() })
            }
            MeasuredBy::Existence => {
                machines.take().map_or(Ok(()), Machines::close)?;
                self.existence(key, &job, unit, machines)
            }
        }
    }

    /// What machines cost that do nothing: the host without them, and with them.
    fn existence(
        &mut self,
        key: &RunKey,
        job: &transect_bench_core::Job,
        unit: &Unit,
        machines: &mut Option<Machines>,
    ) -> Result<CellResult, Fault> {
        let (settle, length) = memory_loss::times(job)?;
        let without = memory_loss::look(&[], length)?;
        let machines = machines.insert(self.open(key.block, unit)?);
        let ran = machines.run(job, &self.plan, &key.cell, self.must_stop, |machines| {
            std::thread::sleep(settle);
            memory_loss::look(&machines.host_tids(), length)
        });
        let (mut result, with) = ran?;
        let guests = result.parts.iter().filter(|part| part.role == Role::Whole);
        let guests: Vec<RunResult> = guests.map(|part| part.result.clone()).collect();
        result.metrics = memory_loss::metrics(&without, &with?, &guests)?;
        Ok(result)
    }

    fn open(&mut self, block: u32, unit: &Unit) -> Result<Machines, Fault> {
        let machines =
            Machines::open(&self.plan, unit, self.own, &self.results.logs(), self.must_stop)?;
        for opened in machines.opened() {
            self.write(Entry::Opened(Opened { block, ..opened }))?;
        }
        Ok(machines)
    }

    fn faulted(&self, key: &RunKey, fault: Fault, machines: &mut Option<Machines>) -> Outcome {
        let faults = self.state.faults.get(key).copied().unwrap_or(0) + 1;
        let is_refused = matches!(fault, Fault::Refused(_));
        // A cache that was not as asked for, a generator that was late: the next try may be none of that.
        let stands = matches!(&fault, Fault::Refused(refusal) if stands(refusal.kind));
        if !is_refused && let Some(machines) = machines.take() {
            // What it says when it is closed adds nothing to what it failed with.
            drop(machines.close());
        }
        Outcome::Faulted { fault, is_final: stands || faults >= self.plan.procedure.tries }
    }
}

fn key_of(block: u32, cell: &Cell, label: Label) -> RunKey {
    RunKey { block, cell: cell.clone(), label }
}
