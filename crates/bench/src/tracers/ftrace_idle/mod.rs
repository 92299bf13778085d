//! ftrace, loaded but idle: every event is on, and no event passes its filter. See `README.md`.

use crate::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
    tracers::{
        Scene, Tracer, Tracing, ftrace,
        tools::{
            instance::{self, Traced},
            params::Params,
        },
    },
};

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
        "ftrace whose filters let nothing through: on, and idle"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        ftrace::params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        ftrace::can_run(self, job)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let traced = Traced::make(self.name(), &Params::of(self, scene.job)?)?;
        traced.enable(Some(NEVER))?;
        traced.switch_on()?;
        Ok(Box::new(Idle(traced)))
    }
}

struct Idle(Traced);

impl Tracing for Idle {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        if !self.0.is_on() {
            return Err(Fault::failed("ftrace: tracing was switched off before the run was over"));
        }
        let cpus = self.0.switch_off()?;
        Ok(TracerCost {
            exits: None,
            events: Some(cpus.iter().map(|cpu| cpu.entries + cpu.overrun).sum()),
            bytes: Some(0),
            lost_events: Some(cpus.iter().map(|cpu| cpu.commit_overrun + cpu.dropped).sum()),
            consumer_cpu_ns: Some(0),
            version: instance::version(),
        })
    }
}
