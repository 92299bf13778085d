//! ftrace, everything to disk: whole ring-buffer pages spliced to a file for each CPU. See `README.md`.

mod pages;

use crate::{
    tools::{
        events,
        instance::{self, Traced},
        params::Params,
        program,
    },
    tracer::{Scene, Tracer, Tracing},
};
use pages::Pages;
use std::sync::Arc;
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};
use transect_tracefs::Collector;

/// The arm.
#[derive(Debug)]
pub(super) struct Ftrace;

impl Tracer for Ftrace {
    fn name(&self) -> &'static str {
        "ftrace"
    }

    fn about(&self) -> &'static str {
        "ftrace: raw ring-buffer pages spliced to disk"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        params()
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        can_run(self, job)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let traced = Traced::make(self.name(), &Params::of(self, scene.job)?)?;
        let pages = Arc::new(Pages::into(scene.folder));
        let readers = Collector::start(&traced.instance, pages.clone()).map_err(Fault::failed)?;
        traced.enable(None)?;
        traced.switch_on()?;
        pages.traces_now();
        Ok(Box::new(Spliced { readers, pages, traced }))
    }
}

/// The parameters of all three arms of ftrace.
pub(super) fn params() -> Vec<(&'static str, Param, &'static str)> {
    let buffer = "buffer of each CPU, KiB; 0: the kernel's default (1408)";
    vec![events::param(), ("buffer_kib", Param::Int(0), buffer)]
}

/// Traces into buffers that nobody reads, what passes the filter if there is one.
pub(super) fn unread(
    arm: &dyn Tracer,
    scene: &Scene<'_>,
    filter: Option<&str>,
) -> Result<Box<dyn Tracing>, Fault> {
    let traced = Traced::make(arm.name(), &Params::of(arm, scene.job)?)?;
    traced.enable(filter)?;
    traced.switch_on()?;
    Ok(Box::new(Unread(traced)))
}

/// What all three need.
pub(super) fn can_run(arm: &dyn Tracer, job: &Job) -> Result<(), Refusal> {
    let params = Params::of(arm, job)?;
    program::need_root(arm.name())?;
    let tracefs = events::tracefs(arm.name())?;
    events::present(arm.name(), &tracefs, params.text("events")).map(drop)
}

struct Spliced {
    /// Dropped first: readers hold the instance.
    readers: Collector,
    pages: Arc<Pages>,
    traced: Traced,
}

impl Tracing for Spliced {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        let Spliced { readers, pages, traced } = *self;
        traced.was_on()?;
        let traced_cpu_ns = pages.cpu_ns();
        let totals = readers.stop(&traced.instance).map_err(Fault::failed)?;
        Ok(TracerCost {
            exits: None,
            events: Some(totals.events()),
            bytes: Some(pages.bytes()),
            lost_events: Some(totals.lost()),
            consumer_cpu_ns: Some(traced_cpu_ns),
            closing_cpu_ns: Some(pages.cpu_ns().saturating_sub(traced_cpu_ns)),
            version: instance::version(),
        })
    }
}

struct Unread(Traced);

impl Tracing for Unread {
    fn stop(self: Box<Self>) -> Result<TracerCost, Fault> {
        self.0.was_on()?;
        let cpus = self.0.switch_off()?;
        Ok(TracerCost {
            exits: None,
            // What was overwritten was recorded: that is what a flight recorder is for.
            events: Some(cpus.iter().map(|cpu| cpu.entries + cpu.overrun).sum()),
            bytes: Some(0),
            lost_events: Some(cpus.iter().map(|cpu| cpu.commit_overrun + cpu.dropped).sum()),
            // The kernel itself traces: there is no process that reads.
            consumer_cpu_ns: Some(0),
            closing_cpu_ns: Some(0),
            version: instance::version(),
        })
    }
}
