//! `perf stat -a`: counts, and records nothing. See `README.md`.

use crate::{
    perf::{add_events, can_run},
    tools::{END_PATIENCE, child::Running, events, params::Params, perf_control::Control, program},
    tracer::{Scene, Tracer, Tracing},
};
use std::{fs, path::PathBuf, process::Command};
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// The arm.
#[derive(Debug)]
pub(super) struct PerfCount;

impl Tracer for PerfCount {
    fn name(&self) -> &'static str {
        "perf-count"
    }

    fn about(&self) -> &'static str {
        "perf stat -a: the kernel counts events and records none"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        vec![events::param()]
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        can_run(self, job)
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let perf = program::find(self.name(), "perf", "linux-perf")?;
        let params = Params::of(self, scene.job)?;
        let output = scene.folder.join("counts.csv");
        let mut control = Control::make(scene.folder)?;
        let mut command = Command::new(&perf);
        command.args(["stat", "-a", "-x", ","]);
        control.add_to(&mut command);
        add_events(self.name(), &params, &mut command)?;
        command.arg("-o").arg(&output);
        let version = program::version(&perf)?;
        let mut running = Running::start("perf", &mut command, scene.folder)?;
        control.enable(&mut running)?;
        running.traces_now();
        Ok(Box::new(Counting { running, output, version }))
    }
}

struct Counting {
    running: Running,
    output: PathBuf,
    version: String,
}

impl Tracing for Counting {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        let failed = |why: String| Fault::failed(format!("{}: {why}", self.output.display()));
        let text = fs::read_to_string(&self.output).map_err(|error| failed(error.to_string()))?;
        Ok(TracerCost {
            events: Some(sum(&text).map_err(failed)?),
            bytes: Some(0),
            // Counters have no room to run out of.
            lost_events: Some(0),
            version: self.version,
            ..ended.cost()
        })
    }
}

/// All events of `perf stat -x ,`: the first field of each line.
fn sum(text: &str) -> Result<u64, String> {
    let lines: Vec<_> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    if lines.is_empty() {
        return Err("perf counted nothing".to_owned());
    }
    let count = |line: &&str| {
        let first = line.split(',').next().unwrap_or_default();
        // "<not counted>", "<not supported>"
        first.parse::<u64>().map_err(|_| format!("perf did not count: {line}"))
    };
    lines.iter().map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_up_and_what_was_not_counted_is_an_error() {
        let text = "# started on Sun\n\n58,,raw_syscalls:sys_enter,16572305,100.00,,\n2,,sched:sched_switch,1,100.00,,\n";
        assert_eq!(sum(text), Ok(60));
        assert!(sum("<not counted>,,kvm:kvm_exit,0,100.00,,\n").is_err());
        assert!(sum("# started\n").is_err());
    }
}
