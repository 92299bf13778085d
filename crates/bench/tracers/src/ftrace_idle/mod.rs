//! ftrace, loaded but idle: every event is on, and no event passes its filter. See `README.md`.

use crate::{
    ftrace,
    tracer::{Scene, Tracer, Tracing},
};
use transect_bench_core::{Fault, Job, Refusal, protocol::Param};

/// Holds for no event: `common_pid`, which every event has, is below 2^22 (`PID_MAX_LIMIT`, include/linux/threads.h).
const NEVER: &str = "common_pid == 4194305";

/// The arm.
#[derive(Debug)]
pub(super) struct FtraceIdle;

impl Tracer for FtraceIdle {
    fn name(&self) -> &'static str {
        "ftrace-idle"
    }

    fn about(&self) -> &'static str {
        "ftrace with filters that reject every event: enabled but idle"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        ftrace::params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        ftrace::can_run(self, job)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        ftrace::unread(self, scene, Some(NEVER))
    }
}
