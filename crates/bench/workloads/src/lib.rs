//! What is measured: one folder each, one line in [`registry`].

pub mod boot;
mod compile;
mod compress;
mod cyclictest;
mod dbench;
mod exit_cost;
mod fio;
pub mod iperf;
pub mod load_distribution;
mod looped;
pub mod memory_loss;
mod micro;
pub mod net;
pub mod pgbench;
mod proc_walk;
mod support;
mod sysbench_cpu;
mod tar;
mod tracer_cost;
pub mod web;

use std::{
    path::{Path, PathBuf},
    sync::{LazyLock, atomic::AtomicBool},
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

/// Every workload there is.
static ALL: LazyLock<Vec<&'static dyn Workload>> = LazyLock::new(|| {
    let mut all: Vec<&'static dyn Workload> = Vec::new();
    all.extend(micro::ALL);
    all.extend(tracer_cost::ALL);
    all.push(exit_cost::EXIT_COST);
    all.push(proc_walk::PROC_WALK);
    all.push(&compile::Compile);
    all.extend(tar::ALL);
    all.extend(compress::ALL);
    all.push(&dbench::Dbench);
    all.push(&sysbench_cpu::SysbenchCpu);
    all.push(&fio::Fio);
    all.push(&cyclictest::Cyclictest);
    all.push(&pgbench::Pgbench);
    all.push(&web::Web);
    all.push(&iperf::Iperf::Tcp);
    all.push(&iperf::Iperf::Udp);
    all.push(&boot::Boot);
    all.push(&load_distribution::LoadDistribution);
    all.push(&memory_loss::MemoryLoss);
    all
});

/// Every workload there is.
#[must_use]
pub fn registry() -> &'static [&'static dyn Workload] {
    &ALL
}

/// The workload of this name.
///
/// # Errors
/// There is none.
pub fn named(name: &str) -> Result<&'static dyn Workload, Refusal> {
    let all = registry();
    let found = all.iter().find(|workload| workload.about().name == name);
    found.copied().ok_or_else(|| {
        Refusal::unknown("workload", name, all.iter().map(|workload| workload.about().name))
    })
}
