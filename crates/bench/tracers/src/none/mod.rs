//! Nobody traces: the reference that every arm is compared with.

use crate::tracer::{Scene, Tracer, Tracing};
use transect_bench_core::{Fault, Job, Refusal, protocol::TracerCost};

/// Its name.
pub const NAME: &str = "none";

/// Nobody.
#[derive(Debug)]
pub struct Nobody;

impl Tracer for Nobody {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "no tracer: the reference"
    }

    fn can_run(&self, _: &Job) -> Result<(), Refusal> {
        Ok(())
    }

    fn start(&self, _: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        Ok(Box::new(Nobody))
    }
}

impl Tracing for Nobody {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        Ok(TracerCost::default())
    }
}
