//! Carrying a plan out, from its beginning or from where it was cut off.

use super::{
    boot,
    folder::{self, Results},
    order::Unit,
    own::Own,
};
use crate::{
    environment::{Environment, Scope, Subject, difference, refuse},
    journal::{Entry, Journal, State},
    plan::{Cell, Plan},
};
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use transect_bench_core::Fault;
use transect_bench_workloads as workloads;

/// Told of everything that happens, as it happens.
pub trait Witness {
    /// A line has been written into the journal; `done` of `all` runs have come to an end.
    fn wrote(&mut self, entry: &Entry, done: usize, all: usize);
}

/// Carries a plan out from its beginning. It ends when `must_stop` becomes true; `resume` goes on from there.
pub fn run(
    plan_text: &str,
    results: &Results,
    own: &Own,
    must_stop: &AtomicBool,
    witness: &mut dyn Witness,
) -> Result<State, Fault> {
    let plan = Plan::parse(plan_text, "given")?;
    let planned = plan.planned()?;
    if planned.cells.is_empty() {
        return Err(Fault::failed(match planned.refused.first() {
            Some(first) => format!(
                "this machine refuses every cell; the first: {}: {}",
                first.cell, first.refusal
            ),
            None => "the plan has no cell".to_owned(),
        }));
    }
    // What it lies on is part of what this machine is.
    results.make()?;
    let mut journal =
        results.begin(plan_text, &Environment::capture(&subject(&planned.cells, results, own)))?;
    let begun = Entry::Begun {
        format: crate::journal::FORMAT,
        plan_sha256: folder::sha256_of(plan_text.as_bytes()),
        version: own.version.clone(),
        unix_ns: unix_ns(),
        refused: planned.refused,
    };
    journal.write(&begun)?;
    let state = State::of(&[begun])?;
    Run::new(plan, planned.cells, journal, state, results, own, must_stop, witness).carried_out()
}

/// Goes on where an earlier run of the same plan was cut off.
pub fn resume(
    results: &Results,
    own: &Own,
    must_stop: &AtomicBool,
    witness: &mut dyn Witness,
) -> Result<State, Fault> {
    let plan_text = results.plan_text()?;
    let (mut journal, entries, was_torn) = Journal::resume(&results.journal())?;
    let mut state = State::of(&entries)?;
    if state.plan_sha256 != folder::sha256_of(plan_text.as_bytes()) {
        return Err(Fault::failed(format!(
            "{}: the plan differs from the one that the journal was started with",
            results.plan().display()
        )));
    }
    let plan = Plan::parse(&plan_text, &results.plan().display().to_string())?;
    let refused: Vec<&Cell> = state.refused.iter().map(|refused| &refused.cell).collect();
    let cells: Vec<Cell> =
        plan.cells()?.into_iter().filter(|cell| !refused.contains(&cell)).collect();
    if state.finished.is_some() {
        return Ok(state);
    }
    refuse_another_machine(results, &cells, own, &state)?;
    let resumed =
        Entry::Resumed { unix_ns: unix_ns(), was_torn, interrupted: state.under_way().cloned() };
    journal.write(&resumed)?;
    state.add(&resumed);
    Run::new(plan, cells, journal, state, results, own, must_stop, witness).carried_out()
}

/// What is written down of this machine.
fn subject(cells: &[Cell], results: &Results, own: &Own) -> Subject {
    let packages = cells.iter().filter_map(|cell| workloads::named(&cell.group.workload).ok());
    let mut packages: Vec<String> =
        packages.flat_map(|of| of.about().packages.iter().map(|name| (*name).to_owned())).collect();
    packages.sort_unstable();
    packages.dedup();
    Subject {
        scratch: results.folder().to_owned(),
        accelerator: "none".to_owned(),
        programs: vec![own.worker.clone()],
        packages,
    }
}

/// Results of two machines are no results. After a reboot into another entry the kernel is meant to differ, and Xen keeps
/// memory for itself: what each platform ran on is in the journal.
fn refuse_another_machine(
    results: &Results,
    cells: &[Cell],
    own: &Own,
    state: &State,
) -> Result<(), Fault> {
    let was_rebooted = state.rebooting.is_some() || state.booted.is_some();
    let scope = if was_rebooted { Scope::Boots } else { Scope::OneMachine };
    let now = Environment::capture(&subject(cells, results, own));
    let differences = difference(&results.environment()?, &now, scope);
    let what = format!("continuing {}", results.folder().display());
    refuse(&what, &differences).map_or(Ok(()), |refusal| Err(refusal.into()))
}

/// How a stretch of it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    /// It goes on.
    On,
    /// This host reboots: another process goes on.
    Down,
}

/// A plan that is being carried out.
pub(super) struct Run<'a> {
    pub(super) plan: Plan,
    pub(super) cells: Vec<Cell>,
    pub(super) journal: Journal,
    pub(super) state: State,
    pub(super) results: &'a Results,
    pub(super) own: &'a Own,
    pub(super) must_stop: &'a AtomicBool,
    pub(super) witness: &'a mut dyn Witness,
    began: Instant,
}

impl<'a> Run<'a> {
    #[expect(
        clippy::too_many_arguments,
        reason = "each is one part of it, and it is made in two places"
    )]
    pub(super) fn new(
        plan: Plan,
        cells: Vec<Cell>,
        journal: Journal,
        state: State,
        results: &'a Results,
        own: &'a Own,
        must_stop: &'a AtomicBool,
        witness: &'a mut dyn Witness,
    ) -> Self {
        let began = Instant::now();
        Self { plan, cells, journal, state, results, own, must_stop, witness, began }
    }

    fn carried_out(mut self) -> Result<State, Fault> {
        // Blocks in which something failed are made up for; `look` ends it.
        for block in 0..2 * self.plan.most_blocks() {
            if self.is_over_budget() && block > 0 {
                return self.finish("the time limit was reached");
            }
            if !self.cells.iter().any(|cell| self.goes_on(cell)) {
                break;
            }
            if self.block(block)? == Went::Down || self.must_stop() {
                return Ok(self.state);
            }
            self.look()?;
        }
        self.finish("every workload is done")
    }

    /// Is this host booted by the entry that a unit needs? If not, it goes down.
    pub(super) fn booted_for(&mut self, unit: &Unit) -> Result<Went, Fault> {
        let Some(entry) = &unit.boot else { return Ok(Went::On) };
        let now = self.own.boots.id()?;
        if self.state.booted.as_ref().is_some_and(|(by, id)| by == entry && *id == now) {
            return Ok(Went::On);
        }
        if let Some((by, before)) = &self.state.rebooting
            && by == entry
            && *before != now
        {
            let running = self.own.boots.running()?;
            boot::check(entry, &running, &self.state.running)?;
            self.write(Entry::Booted { boot: entry.clone(), boot_id: now, running })?;
            return Ok(Went::On);
        }
        self.write(Entry::Rebooting { boot: entry.clone(), boot_id: now })?;
        self.own.boots.reboot_into(entry)?;
        Ok(Went::Down)
    }

    fn finish(mut self, why: &str) -> Result<State, Fault> {
        self.write(Entry::Finished { unix_ns: unix_ns(), why: why.to_owned() })?;
        if self.state.booted.is_some() {
            self.own.boots.over()?;
        }
        Ok(self.state)
    }

    fn is_over_budget(&self) -> bool {
        let budget = self.plan.procedure.budget_s.map(Duration::from_secs);
        budget.is_some_and(|budget| self.began.elapsed() >= budget)
    }

    pub(super) fn must_stop(&self) -> bool {
        self.must_stop.load(Ordering::Relaxed)
    }

    /// The reference is measured twice.
    fn runs_a_block(&self) -> usize {
        let is_reference = |cell: &&Cell| cell.tracer == self.plan.reference.tracer;
        self.cells.len() + self.cells.iter().filter(is_reference).count()
    }

    /// Is more of it to be measured?
    pub(super) fn goes_on(&self, cell: &Cell) -> bool {
        !self.state.stopped.contains_key(&cell.group.workload) && !self.state.has_given_up(cell)
    }

    pub(super) fn write(&mut self, entry: Entry) -> Result<(), Fault> {
        self.journal.write(&entry)?;
        self.state.add(&entry);
        let all = self.runs_a_block() * self.plan.most_blocks() as usize;
        self.witness.wrote(&entry, self.state.ended.len(), all);
        Ok(())
    }
}

pub(super) fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
