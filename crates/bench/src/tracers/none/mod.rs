//! Nobody traces: the reference. See `README.md`.

use crate::{
    Fault, Job, Refusal,
    protocol::TracerCost,
    tracers::{Scene, Tracer, Tracing, tools::params::Params},
};

/// The arm.
#[derive(Debug)]
pub(super) struct None;

impl Tracer for None {
    fn name(&self) -> &'static str {
        "none"
    }

    fn about(&self) -> &'static str {
        "nobody traces"
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        Params::of(self, job).map(drop)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        self.can_run(scene.job)?;
        Ok(Box::new(Nobody))
    }
}

struct Nobody;

impl Tracing for Nobody {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        Ok(TracerCost::default())
    }
}
