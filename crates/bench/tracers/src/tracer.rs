//! What each tracer arm implements.

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
