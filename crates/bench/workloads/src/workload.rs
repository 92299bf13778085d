//! What each workload implements, and what it is given.

use std::{
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};
use transect_bench_core::{About, Fault, Job, Metric, Refusal};

/// A workload.
pub trait Workload: Sync {
    /// What it is.
    fn about(&self) -> About;
    /// Why it cannot run on the machine this is called on.
    fn can_run(&self, job: &Job) -> Result<(), Refusal>;
    /// Everything up to the brink: unpacks, fills, starts servers. What comes back may hold on to the place.
    fn prepare<'a>(&self, place: &Place<'a>) -> Result<Box<dyn Prepared + 'a>, Fault>;
    /// Who measures its primary metric.
    fn measured_by(&self) -> MeasuredBy {
        MeasuredBy::Workload
    }
    /// About how long one run of this job takes on a native machine, seconds.
    fn expected_s(&self, _: &Job) -> f64 {
        self.about().expected_s
    }
}

/// Who measures a workload's primary metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeasuredBy {
    /// The workload, in the machine: [`Prepared::run`].
    Workload,
    /// The procedure: it opens every machine of the cell anew, and takes the time from before the call of
    /// `Platform::open` to the worker's `Hello`. It sends no job; `boot::metrics` makes the metrics.
    Opening,
    /// The procedure, on the host: it looks at the host before it opens the machines of the cell anew and while their
    /// workloads (which do nothing) run. `memory_loss::metrics` makes the metrics.
    Existence,
}

/// What a workload is told.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The job, parameters complete.
    pub job: &'a Job,
    /// An empty writable folder of its own, on the machine's disk; removed afterwards.
    pub folder: &'a Path,
    /// A folder that outlives the job, for what is expensive to make and does not change (unpacked sources).
    pub keep: &'a Path,
    /// Set when the measured part of a job without an end of its own is to end.
    pub cancelled: &'a AtomicBool,
}

/// A workload on the brink.
pub trait Prepared {
    /// Files whose cache state matters.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// TCP ports it listens on.
    fn ports(&self) -> Vec<u16> {
        Vec::new()
    }
    /// Programs that it runs, to be told apart by their hashes.
    fn programs(&self) -> Vec<PathBuf> {
        Vec::new()
    }
    /// The measured part. The first metric is the primary one.
    fn run(&mut self) -> Result<Vec<Metric>, Fault>;
    /// Anything that people should know about the run.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
