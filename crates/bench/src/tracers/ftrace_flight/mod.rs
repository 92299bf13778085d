//! ftrace as a flight recorder: the kernel overwrites, and nobody reads. See `README.md`.

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

/// The arm.
#[derive(Debug)]
pub(super) struct FtraceFlight;

impl Tracer for FtraceFlight {
    fn name(&self) -> &'static str {
        "ftrace-flight"
    }

    fn about(&self) -> &'static str {
        "ftrace into buffers that overwrite their oldest events, nobody reading"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        ftrace::params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        ftrace::can_run(self, job)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let traced = Traced::make(self.name(), &Params::of(self, scene.job)?)?;
        traced.enable(None)?;
        traced.switch_on()?;
        Ok(Box::new(Flight(traced)))
    }
}

struct Flight(Traced);

impl Tracing for Flight {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        if !self.0.is_on() {
            return Err(Fault::failed("ftrace: tracing was switched off before the run was over"));
        }
        let cpus = self.0.switch_off()?;
        Ok(TracerCost {
            exits: None,
            // What was overwritten was recorded: that is what a flight recorder is for.
            events: Some(cpus.iter().map(|cpu| cpu.entries + cpu.overrun).sum()),
            bytes: Some(0),
            lost_events: Some(cpus.iter().map(|cpu| cpu.commit_overrun + cpu.dropped).sum()),
            consumer_cpu_ns: Some(0),
            version: instance::version(),
        })
    }
}
