//! Tracer arms: one folder each, one line in [`registry`]. An arm runs in the machine whose workload it traces.

pub mod none;

use crate::{Fault, Job, Kind, Refusal, protocol::TracerCost};
use std::path::Path;

/// Somebody who traces while a workload runs.
pub trait Tracer: Sync {
    /// Its name in plans: `trace-cmd`.
    fn name(&self) -> &'static str;
    /// One line for people.
    fn about(&self) -> &'static str;
    /// Why it cannot run on the machine this is called on.
    fn can_run(&self, job: &Job) -> Result<(), Refusal>;
    /// Starts it, and comes back when it traces: not a moment before.
    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault>;
}

/// What an arm is told.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The job.
    pub job: &'a Job,
    /// An empty folder of its own for what it records; removed afterwards.
    pub folder: &'a Path,
    /// The process that will run the workload, with all its threads and children; already there, and waiting.
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
    &[&none::Nobody]
}

/// The arm of this name.
pub fn find(name: &str) -> Result<&'static dyn Tracer, Refusal> {
    let found = registry().iter().find(|arm| arm.name() == name);
    found.copied().ok_or_else(|| {
        let known: Vec<_> = registry().iter().map(|arm| arm.name()).collect();
        Refusal::new(Kind::Plan, format!("tracer {name}"), "there is none of this name")
            .mend(format!("there are: {}", known.join(", ")))
    })
}
