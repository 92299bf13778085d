//! transect, loaded but idle: every program is attached and runs, and nothing passes its filter. See `README.md`.

use crate::{
    tools::{
        child::Running,
        recorder::{self, Collector, Recorder},
    },
    tracer::{Scene, Tracer, Tracing},
};
use std::process::Command;
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// The arm.
#[derive(Debug)]
pub(super) struct TransectIdle;

impl Tracer for TransectIdle {
    fn name(&self) -> &'static str {
        "transect-idle"
    }

    fn about(&self) -> &'static str {
        "transect record with a filter that rejects every event: attached but idle"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        recorder::params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        recorder::can_run(self, job, Collector::Compact)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        // A process that does nothing at all until the run is over.
        let mut sleep = Command::new("sleep");
        let sleeper = Running::start("sleep", sleep.arg("2147483647"), scene.folder)?;
        let filter = ["--filter".to_owned(), format!("pid={}", sleeper.pid())];
        let recorder = Recorder::start(self, scene, Collector::Compact, &filter)?;
        Ok(Box::new(Idle { recorder, _sleeper: sleeper }))
    }
}

struct Idle {
    /// Dropped first: it is not to see its sleeper die.
    recorder: Recorder,
    _sleeper: Running,
}

impl Tracing for Idle {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        self.recorder.stop()
    }
}
