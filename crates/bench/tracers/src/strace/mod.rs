//! `strace -f -c -p`: the slow end. See `README.md`.

use crate::{
    tools::{END_PATIENCE, START_PATIENCE, child::Running, cpu, params::Params, program},
    tracer::{Scene, Tracer, Tracing},
};
use procfs::process::{Process, Task};
use std::{fs, path::PathBuf, process::Command};
use transect_bench_core::{Fault, Job, Refusal, protocol::TracerCost};

/// The arm.
#[derive(Debug)]
pub(super) struct Strace;

impl Tracer for Strace {
    fn name(&self) -> &'static str {
        "strace"
    }

    fn about(&self) -> &'static str {
        "strace -f -c on the workload: two ptrace stops per system call"
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        Params::of(self, job)?;
        program::find(self.name(), "strace", "strace")?;
        program::need_root(self.name())
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let strace = program::find(self.name(), "strace", "strace")?;
        let output = scene.folder.join("strace.counts");
        let processes = cpu::family(scene.pid);
        let mut command = Command::new(&strace);
        command.args(["-f", "-c", "--summary-columns=calls,name", "-o"]).arg(&output);
        command.args(processes.iter().flat_map(|pid| ["-p".to_owned(), pid.to_string()]));
        let version = program::version(&strace)?;
        let mut running = Running::start("strace", &mut command, scene.folder)?;
        running.wait_until("sign that it is attached", START_PATIENCE, |it| {
            processes.iter().all(|pid| is_traced_by(*pid, it.pid()))
        })?;
        running.traces_now();
        Ok(Box::new(Attached { running, output, version }))
    }
}

/// Are all threads of this process traced by that one? (`TracerPid`, proc(5).)
fn is_traced_by(pid: u32, tracer: u32) -> bool {
    let tasks = Process::new(pid.cast_signed()).and_then(|process| process.tasks());
    let is_traced =
        |task: Task| task.status().is_ok_and(|status| status.tracerpid.cast_unsigned() == tracer);
    tasks.is_ok_and(|tasks| tasks.flatten().all(is_traced))
}

struct Attached {
    running: Running,
    output: PathBuf,
    version: String,
}

impl Tracing for Attached {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        let failed = |why: String| Fault::failed(format!("{}: {why}", self.output.display()));
        let text = fs::read_to_string(&self.output).map_err(|error| failed(error.to_string()))?;
        Ok(TracerCost {
            events: Some(total(&text).map_err(failed)?),
            bytes: Some(text.len() as u64),
            // The traced thread waits for strace at each of its calls.
            lost_events: Some(0),
            version: self.version,
            ..ended.cost()
        })
    }
}

/// Calls of all kinds. No call at all leaves an empty file.
fn total(text: &str) -> Result<u64, String> {
    if text.trim().is_empty() {
        return Ok(0);
    }
    let words = |line: &str| {
        let (count, name) = line.trim().split_once(char::is_whitespace)?;
        (name.trim() == "total").then(|| count.parse::<u64>().ok())?
    };
    text.lines().find_map(words).ok_or_else(|| "strace's counts have no total".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_line_of_that_name() {
        let text = "    calls syscall\n--------- ----------------\n     1000 getppid\n        2 read\n--------- ----------------\n     1002 total\n";
        assert_eq!(total(text), Ok(1002));
        assert_eq!(total(""), Ok(0));
        assert!(total("    calls syscall\n").is_err());
    }

    #[test]
    fn who_is_not_traced_is_not() {
        assert!(!is_traced_by(std::process::id(), 1));
        assert!(!is_traced_by(u32::MAX, 1));
    }
}
