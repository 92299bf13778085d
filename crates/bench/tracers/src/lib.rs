//! Tracer arms: one folder each, one line in [`registry`]. An arm runs in the machine whose workload it traces.
//!
//! What they share is in `tools`: the event set, parameters, programs and processes, an ftrace instance of their own.

mod append_1mb;
mod bpftrace;
mod ftrace;
mod ftrace_flight;
mod ftrace_idle;
mod lttng_kernel;
mod lttng_ust;
pub mod none;
mod perf;
mod perf_count;
mod strace;
mod tools;
mod trace_cmd;
mod transect_aggregate;
mod transect_compact;
mod transect_flight;
mod transect_full;
mod transect_idle;
mod xentrace;

pub use tools::events::{DEFAULT_EVENTS, GROUPS};

use std::path::Path;
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// Somebody who traces while a workload runs.
pub trait Tracer: Sync {
    /// Its name in plans: `trace-cmd`.
    fn name(&self) -> &'static str;
    /// One line for people.
    fn about(&self) -> &'static str;
    /// Parameters with their defaults, and what they mean. A job that has others is refused.
    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        Vec::new()
    }
    /// Environment variables that the workload's process has to be started with, so that it can be traced.
    ///
    /// # Errors
    /// What is to be loaded into it is not there.
    fn environment(&self, _job: &Job) -> Result<Vec<(String, String)>, Refusal> {
        Ok(Vec::new())
    }
    /// Does it need LTTng's kernel modules, which the testbed's machines can be given?
    fn needs_lttng_modules(&self) -> bool {
        false
    }
    /// Why it cannot run on the machine this is called on.
    fn can_run(&self, job: &Job) -> Result<(), Refusal>;
    /// Starts it, and comes back when it traces: not a moment before. The calling thread must live until
    /// [`Tracing::stop`]: an arm's programs are told to end when it does, so that a killed worker leaves none.
    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault>;
}

/// What an arm is told.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The job.
    pub job: &'a Job,
    /// An empty folder of its own for what it records; removed afterwards.
    pub folder: &'a Path,
    /// The process that will run the workload, with all its threads and children; already there, and waiting. It
    /// has the arm's [`Tracer::environment`].
    pub pid: u32,
    /// This program: to start `transect record …` with.
    pub transect: &'a Path,
}

/// An arm that traces. Dropping it ends it and leaves no trace of it in the kernel.
pub trait Tracing {
    /// Ends it, and says what it recorded. It has written everything when this comes back.
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault>;
}

/// Every arm there is.
#[must_use]
pub fn registry() -> &'static [&'static dyn Tracer] {
    &[
        &none::Nobody,
        &transect_idle::TransectIdle,
        &transect_aggregate::TransectAggregate,
        &transect_flight::TransectFlight,
        &transect_compact::TransectCompact,
        &transect_full::TransectFull,
        &ftrace_idle::FtraceIdle,
        &ftrace_flight::FtraceFlight,
        &ftrace::Ftrace,
        &trace_cmd::TraceCmd,
        &perf_count::PerfCount,
        &perf::Perf,
        &bpftrace::Bpftrace,
        &lttng_kernel::LttngKernel,
        &lttng_ust::LttngUst,
        &xentrace::Xentrace,
        &strace::Strace,
        &append_1mb::Append1Mb,
    ]
}

/// The tracer of an arm's name, and whether it runs on the host below the machines (`perf@below`) instead of in them.
#[must_use]
pub fn arm(name: &str) -> (&str, bool) {
    match name.strip_suffix("@below") {
        Some(tracer) => (tracer, true),
        None => (name, false),
    }
}

/// The tracer of this arm.
///
/// # Errors
/// There is none.
pub fn named(name: &str) -> Result<&'static dyn Tracer, Refusal> {
    let (name, all) = (arm(name).0, registry());
    let found = all.iter().find(|tracer| tracer.name() == name);
    found
        .copied()
        .ok_or_else(|| Refusal::unknown("tracer", name, all.iter().map(|tracer| tracer.name())))
}
