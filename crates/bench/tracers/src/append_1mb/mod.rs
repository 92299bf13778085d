//! Nobody traces, and a script appends 1 MB to a file again and again: LTTng-Xen's control. See `README.md`.

use crate::{
    tools::{END_PATIENCE, START_PATIENCE, child::Running, params::Params, program},
    tracer::{Scene, Tracer, Tracing},
};
use rustix::process::Signal;
use std::process::Command;
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// `$1` the file, `$2` how much, `$3` how long to wait. It says when it has appended: the file grows by parts.
const SCRIPT: &str =
    "while :; do head -c \"$2\" /dev/zero >>\"$1\" || exit 1; echo appended; sleep \"$3\"; done";

/// The arm.
#[derive(Debug)]
pub(super) struct Append1Mb;

impl Tracer for Append1Mb {
    fn name(&self) -> &'static str {
        "append-1mb"
    }

    fn about(&self) -> &'static str {
        "no tracer; a script appends 1 MB a second to a file: the control of LTTng-Xen, Table 2"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        vec![
            ("bytes", Param::Int(1_000_000), "size of each append, bytes"),
            ("every_ms", Param::Int(1000), "time between two appends, ms"),
        ]
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let params = Params::of(self, job)?;
        if params.wish("bytes").is_none() || params.wish("every_ms").is_none() {
            let why = "bytes and every_ms must be above zero";
            return Err(Refusal::new(transect_bench_core::Kind::Plan, "tracer append-1mb", why));
        }
        program::find(self.name(), "head", "coreutils").map(drop)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        self.can_run(scene.job)?;
        let params = Params::of(self, scene.job)?;
        let (bytes, wait_ms) = (params.count("bytes"), params.count("every_ms"));
        let file = scene.folder.join("appended");
        let wait = format!("{}.{:03}", wait_ms / 1000, wait_ms % 1000);
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh"]).arg(&file).args([&bytes.to_string(), &wait]);
        let version = program::version(&program::find(self.name(), "head", "coreutils")?)?;
        let running = Running::start("sh", &mut command, scene.folder)?;
        let mut running = running.ends_by(Signal::TERM);
        running.wait_until("first bytes in its file", START_PATIENCE, |it| finished(it) > 0)?;
        let before = finished(&running);
        running.traces_now();
        Ok(Box::new(Appending { running, bytes, before, version }))
    }
}

/// Appends that it has finished.
fn finished(running: &Running) -> u64 {
    running.said().lines().filter(|line| *line == "appended").count() as u64
}

struct Appending {
    running: Running,
    /// How much it appends each time.
    bytes: u64,
    /// Appends that were finished when the run began.
    before: u64,
    version: String,
}

impl Tracing for Appending {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let bytes = finished(&self.running).saturating_sub(self.before) * self.bytes;
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        Ok(TracerCost { bytes: Some(bytes), version: self.version, ..ended.cost() })
    }
}
