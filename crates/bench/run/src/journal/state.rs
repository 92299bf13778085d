//! How far it has come, from the journal's lines.

use super::{Confirmation, Ended, Entry, Opened, Outcome, RunKey, Stop};
use crate::plan::{Cell, RefusedCell};
use std::collections::{BTreeMap, BTreeSet};
use transect_bench_core::{Fault, Kind};

/// What a journal's lines add up to.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// SHA-256 of the plan.
    pub plan_sha256: String,
    /// What the machine refused before anything ran.
    pub refused: Vec<RefusedCell>,
    /// Machines, in the order in which they were opened.
    pub opened: Vec<Opened>,
    /// The last end of every run that has come to one: a result, or that there will be none.
    pub ended: BTreeMap<RunKey, Ended>,
    /// Runs that began.
    pub started: u64,
    /// How often each run failed.
    pub faults: BTreeMap<RunKey, u32>,
    /// How often each run was tried, those that came to no end included.
    pub attempts: BTreeMap<RunKey, u32>,
    /// Runs that began and were cut off by something outside, over all resumes.
    pub interrupted: Vec<RunKey>,
    /// Workloads of which nothing more is measured.
    pub stopped: BTreeMap<String, Stop>,
    /// What the sentinel took, by block, in order.
    pub sentinels: Vec<(u32, f64)>,
    /// How often it went on.
    pub resumes: u32,
    /// Why it ended, once it has.
    pub finished: Option<String>,
    /// The boot loader's entry that it reboots into, and the boot it came from.
    pub rebooting: Option<(String, String)>,
    /// The entry that this host was booted by, and that boot.
    pub booted: Option<(String, String)>,
    /// What ran, by the entry that this host was booted by.
    pub running: BTreeMap<String, String>,
    /// What came of halving suspects.
    pub confirmed: BTreeMap<Cell, Confirmation>,
    under_way: Option<RunKey>,
    failed: BTreeMap<Cell, u32>,
}

/// Final failures in a row, one a block, after which a cell is not tried any more.
const FAILURES: u32 = 2;

/// Does a refusal stand, whatever the next try or the next block's machine is like?
pub(crate) fn stands(kind: Kind) -> bool {
    matches!(kind, Kind::Missing | Kind::NotHere | Kind::Senseless | Kind::Plan | Kind::Different)
}

impl State {
    /// Adds the lines up.
    pub fn of(entries: &[Entry]) -> Result<Self, Fault> {
        let mut state = Self::default();
        let Some(Entry::Begun { format, .. }) = entries.first() else {
            return Err(Fault::failed("the journal does not start with its header entry"));
        };
        if *format != super::entry::FORMAT {
            return Err(Fault::failed(format!(
                "the journal is of format {format}; this program reads format {}",
                super::entry::FORMAT
            )));
        }
        entries.iter().for_each(|entry| state.add(entry));
        Ok(state)
    }

    /// Adds a line.
    pub fn add(&mut self, entry: &Entry) {
        match entry {
            Entry::Begun { plan_sha256, refused, .. } => {
                self.plan_sha256.clone_from(plan_sha256);
                self.refused.clone_from(refused);
            }
            Entry::Resumed { .. } => {
                self.resumes += 1;
                self.interrupted.extend(self.under_way.take());
            }
            Entry::Opened(opened) => self.opened.push(opened.clone()),
            Entry::Rebooting { boot, boot_id } => {
                self.rebooting = Some((boot.clone(), boot_id.clone()));
            }
            Entry::Booted { boot, boot_id, running } => {
                self.booted = Some((boot.clone(), boot_id.clone()));
                if !running.is_empty() {
                    self.running.insert(boot.clone(), running.clone());
                }
                self.rebooting = None;
            }
            Entry::Sentinel { block, took_s } => self.sentinels.push((*block, *took_s)),
            Entry::Started(started) => {
                self.started += 1;
                *self.attempts.entry(started.key.clone()).or_default() += 1;
                self.under_way = Some(started.key.clone());
            }
            Entry::Ended(ended) => {
                self.under_way = None;
                self.end(ended);
            }
            Entry::Stopped(stop) => {
                self.stopped.insert(stop.workload.clone(), stop.clone());
            }
            Entry::Confirmed(confirmation) => {
                self.confirmed.insert(confirmation.cell.clone(), (**confirmation).clone());
            }
            Entry::Finished { why, .. } => self.finished = Some(why.clone()),
        }
    }

    fn end(&mut self, ended: &Ended) {
        let is_end = match &ended.outcome {
            Outcome::Measured(_) => {
                self.failed.remove(&ended.key.cell);
                true
            }
            Outcome::Faulted { is_final, fault } => {
                *self.faults.entry(ended.key.clone()).or_default() += 1;
                self.note_failure(&ended.key.cell, *is_final, fault);
                *is_final
            }
        };
        if is_end {
            self.ended.insert(ended.key.clone(), ended.clone());
        }
    }

    /// A refusal stands; whoever fails finally in two blocks that follow each other is not tried in a third.
    fn note_failure(&mut self, cell: &Cell, is_final: bool, fault: &Fault) {
        let failed = self.failed.entry(cell.clone()).or_default();
        match fault {
            Fault::Refused(refusal) if stands(refusal.kind) => *failed = FAILURES,
            _ => *failed += u32::from(is_final),
        }
    }

    /// Is nothing more to be expected of it?
    #[must_use]
    pub fn has_given_up(&self, cell: &Cell) -> bool {
        self.failed.get(cell).is_some_and(|failed| *failed >= FAILURES)
    }

    /// The run that is under way, or was when the journal ends.
    #[must_use]
    pub fn under_way(&self) -> Option<&RunKey> {
        self.under_way.as_ref()
    }

    /// Has it come to an end: a result, or that there will be none?
    #[must_use]
    pub fn is_done(&self, key: &RunKey) -> bool {
        self.ended.contains_key(key)
    }

    /// Blocks in which something of it was tried.
    #[must_use]
    pub fn blocks(&self) -> BTreeSet<u32> {
        self.attempts.keys().map(|key| key.block).collect()
    }
}
