//! `transect top --log`: windows added up in the kernel, no events. See `README.md`.

use crate::{
    tools::{END_PATIENCE, START_PATIENCE, child::Running, params::Params, program, recorder},
    tracer::{Scene, Tracer, Tracing},
};
use serde_json::Value;
use std::{fs, path::PathBuf, process::Command};
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// The arm.
#[derive(Debug)]
pub(super) struct TransectAggregate;

impl Tracer for TransectAggregate {
    fn name(&self) -> &'static str {
        "transect-aggregate"
    }

    fn about(&self) -> &'static str {
        "transect top --log: BPF programs that aggregate in the kernel, one window of sums a second to disk"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        vec![
            ("interval_ms", Param::Int(1000), "length of the windows, 50 to 60000 ms"),
            ("io", Param::Bool(true), "also count block requests and packets"),
        ]
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        Params::of(self, job)?;
        program::need_root(self.name())?;
        recorder::need_btf(self.name())
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let params = Params::of(self, scene.job)?;
        let log = scene.folder.join("windows.jsonl");
        let interval = format!("{}ms", params.count("interval_ms"));
        let mut command = Command::new(scene.transect);
        command.args(["top", "--source", "bpf", "--interval", &interval, "--log"]).arg(&log);
        command.args((!params.switch("io")).then_some("--no-io"));
        let version = program::version(scene.transect)?;
        let mut running = Running::start("transect", &mut command, scene.folder)?;
        // A window is written when all of it was counted: from then on, all that happens is.
        running.wait_until("first window", START_PATIENCE, |_| {
            fs::read_to_string(&log).is_ok_and(|text| text.ends_with('\n'))
        })?;
        running.traces_now();
        Ok(Box::new(Windows { running, log, version }))
    }
}

struct Windows {
    running: Running,
    log: PathBuf,
    version: String,
}

impl Tracing for Windows {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        let failed = |error| Fault::failed(format!("{}: {error}", self.log.display()));
        let text = fs::read_to_string(&self.log).map_err(failed)?;
        Ok(TracerCost {
            bytes: Some(text.len() as u64),
            lost_events: Some(lost_events(&text)),
            version: self.version,
            ..ended.cost()
        })
    }
}

/// What was not caught, since it began: the last row of `health` (docs/reference/live.md) says.
fn lost_events(log: &str) -> u64 {
    let mut lines = log.lines().rev().filter(|line| line.starts_with("{\"table\":\"health\""));
    let last = lines.find_map(|line| serde_json::from_str::<Value>(line).ok());
    let counters = ["untracked_events", "missed_events", "no_room"];
    last.map_or(0, |row| counters.iter().filter_map(|name| row[name].as_u64()).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_row_says_what_was_not_caught_since_the_start() {
        let health = |missed| {
            format!(
                "{{\"table\":\"health\",\"late_threads\":9,\"untracked_events\":2,\"no_room\":1,\"missed_events\":{missed},\"own_cpu_ns\":5}}\n"
            )
        };
        let log = format!(
            "{{\"table\":\"snapshot\",\"rows\":1}}\n{}{}{{\"table\":\"hea",
            health(3),
            health(4)
        );
        assert_eq!(lost_events(&log), 7);
        assert_eq!(lost_events(""), 0);
    }
}
