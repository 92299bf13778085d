//! ftrace as a flight recorder: the kernel overwrites, and nobody reads. See `README.md`.

use crate::{
    ftrace,
    tracer::{Scene, Tracer, Tracing},
};
use transect_bench_core::{Fault, Job, Refusal, protocol::Param};

/// The arm.
#[derive(Debug)]
pub(super) struct FtraceFlight;

impl Tracer for FtraceFlight {
    fn name(&self) -> &'static str {
        "ftrace-flight"
    }

    fn about(&self) -> &'static str {
        "ftrace into buffers that overwrite their oldest events, without a reader"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        ftrace::params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        ftrace::can_run(self, job)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        ftrace::unread(self, scene, None)
    }
}
