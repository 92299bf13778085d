//! `perf record -a`: everything to disk. See `README.md`.

mod data;

use crate::{
    tools::{END_PATIENCE, child::Running, events, params::Params, perf_control::Control, program},
    tracer::{Scene, Tracer, Tracing},
};
use std::{path::PathBuf, process::Command};
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// The arm.
#[derive(Debug)]
pub(super) struct Perf;

impl Tracer for Perf {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn about(&self) -> &'static str {
        "perf record -a on tracepoints, to disk"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        let pages =
            "buffer of each CPU (-m), pages of 4 KiB, a power of two; 0: perf's default (128)";
        vec![events::param(), ("mmap_pages", Param::Int(0), pages)]
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        can_run(self, job)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let perf = program::find(self.name(), "perf", "linux-perf")?;
        let params = Params::of(self, scene.job)?;
        let output = scene.folder.join("perf.data");
        let mut control = Control::make(scene.folder)?;
        let mut command = Command::new(&perf);
        command.args(["record", "-a"]);
        control.add_to(&mut command);
        if let Some(pages) = params.wish("mmap_pages") {
            command.args(["-m", &pages.to_string()]);
        }
        add_events(self.name(), &params, &mut command)?;
        command.arg("-o").arg(&output);
        let version = program::version(&perf)?;
        let mut running = Running::start("perf", &mut command, scene.folder)?;
        control.enable(&mut running)?;
        running.traces_now();
        Ok(Box::new(Recording { running, output, version }))
    }
}

/// What `perf` and `perf-count` need.
pub(super) fn can_run(arm: &dyn Tracer, job: &Job) -> Result<(), Refusal> {
    let params = Params::of(arm, job)?;
    program::find(arm.name(), "perf", "linux-perf")?;
    program::need_root(arm.name())?;
    let tracefs = events::tracefs(arm.name())?;
    events::present(arm.name(), &tracefs, params.text("events")).map(drop)
}

/// Tells perf the events.
pub(super) fn add_events(
    arm: &'static str,
    params: &Params,
    command: &mut Command,
) -> Result<(), Fault> {
    let (_, events) = events::here(arm, params.text("events"))?;
    command.args(events.iter().flat_map(|event| ["-e".to_owned(), event.to_string()]));
    Ok(())
}

struct Recording {
    running: Running,
    output: PathBuf,
    version: String,
}

impl Tracing for Recording {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        let counted = data::count(&self.output)?;
        Ok(TracerCost {
            events: Some(counted.samples),
            bytes: Some(counted.bytes),
            lost_events: Some(counted.lost()),
            version: self.version,
            ..ended.cost()
        })
    }
}
