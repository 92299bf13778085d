//! `transect record` with the full collector, to disk. See `README.md`.

use crate::{
    tools::recorder::{self, Collector, Recorder},
    tracer::{Scene, Tracer, Tracing},
};
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// The arm.
#[derive(Debug)]
pub(super) struct TransectFull;

impl Tracer for TransectFull {
    fn name(&self) -> &'static str {
        "transect-full"
    }

    fn about(&self) -> &'static str {
        "transect record --full: ring-buffer pages spliced to disk, converted to a trace.dat"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        recorder::params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        recorder::can_run(self, job, Collector::Full)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        Ok(Box::new(Recording(Recorder::start(self, scene, Collector::Full, &[])?)))
    }
}

struct Recording(Recorder);

impl Tracing for Recording {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        self.0.stop()
    }
}
