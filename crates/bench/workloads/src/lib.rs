//! What is measured: one folder each, one line in [`registry`].

pub mod boot;
mod compile;
mod compress;
mod cyclictest;
mod dbench;
mod exit_cost;
mod fio;
mod iperf;
mod load_distribution;
mod looped;
pub mod memory_loss;
mod micro;
mod net;
mod pgbench;
mod proc_walk;
mod support;
mod sysbench_cpu;
mod tar;
mod tracer_cost;
mod web;
mod workload;

pub use workload::{MeasuredBy, Place, Prepared, Workload};

use std::sync::LazyLock;
use transect_bench_core::Refusal;

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
