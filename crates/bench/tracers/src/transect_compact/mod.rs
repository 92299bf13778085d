//! `transect record` with the compact collector, to disk. See `README.md`.

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
pub(super) struct TransectCompact;

impl Tracer for TransectCompact {
    fn name(&self) -> &'static str {
        "transect-compact"
    }

    fn about(&self) -> &'static str {
        "transect record: BPF programs write to mapped logs, which go to disk"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        recorder::params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        recorder::can_run(self, job, Collector::Compact)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        Ok(Box::new(Recording(Recorder::start(self, scene, Collector::Compact, &[])?)))
    }
}

struct Recording(Recorder);

impl Tracing for Recording {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        self.0.stop()
    }
}
