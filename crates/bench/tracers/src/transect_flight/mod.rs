//! `transect record --flight-recorder`: everything is recorded into memory, and nobody reads. See `README.md`.

use crate::{
    tools::{
        params::Params,
        recorder::{self, Collector, Recorder},
    },
    tracer::{Scene, Tracer, Tracing},
};
use std::path::PathBuf;
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// The arm.
#[derive(Debug)]
pub(super) struct TransectFlight;

impl Tracer for TransectFlight {
    fn name(&self) -> &'static str {
        "transect-flight"
    }

    fn about(&self) -> &'static str {
        "transect record --flight-recorder: logs that overwrite their oldest events, nothing written to disk"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        let mut params = recorder::params();
        let snapshot = "write its buffer to disk at the end of the run, as part of its CPU time";
        params.push(("snapshot", Param::Bool(false), snapshot));
        params
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        recorder::can_run(self, job, Collector::Compact)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let params = Params::of(self, scene.job)?;
        let transect = params.switch("snapshot").then(|| scene.transect.to_owned());
        let more = ["--flight-recorder".to_owned()];
        let recorder = Recorder::start(self, scene, Collector::Compact, &more)?;
        Ok(Box::new(Flight { recorder, transect }))
    }
}

struct Flight {
    recorder: Recorder,
    /// With what to ask for a snapshot in the end, if one is wanted.
    transect: Option<PathBuf>,
}

impl Tracing for Flight {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        match self.transect {
            None => self.recorder.stop_without_recording(),
            Some(transect) => self.recorder.stop_with_snapshot(&transect),
        }
    }
}
