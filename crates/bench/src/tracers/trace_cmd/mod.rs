//! `trace-cmd record`: everything to disk. See `README.md`.

use crate::{
    Fault, Job, Kind, Refusal,
    protocol::{Param, TracerCost},
    tracers::{
        Scene, Tracer, Tracing,
        tools::{
            END_PATIENCE, START_PATIENCE, child::Running, events, instance::Traced, params::Params,
            program,
        },
    },
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// trace-cmd writes "1" to it at every start, whatever it records, and gives up if it cannot (`set_ftrace_enable` in
/// tracecmd/trace-record.c of 3.1.6).
const SWITCH: &str = "/proc/sys/kernel/ftrace_enabled";

/// The arm.
#[derive(Debug)]
pub(super) struct TraceCmd;

impl Tracer for TraceCmd {
    fn name(&self) -> &'static str {
        "trace-cmd"
    }

    fn about(&self) -> &'static str {
        "trace-cmd record: ftrace spliced to disk, made a trace.dat"
    }

    fn params(&self) -> Vec<(&'static str, Param, &'static str)> {
        let buffer = "buffer of each CPU (-b), KiB; 0: the kernel's default (1408)";
        vec![events::param(), ("buffer_kib", Param::Int(0), buffer)]
    }

    fn can_run(&self, job: &Job) -> Result<(), Refusal> {
        let params = Params::of(self, job)?;
        program::find(self.name(), "trace-cmd", "trace-cmd")?;
        program::need_root(self.name())?;
        let tracefs = events::tracefs(self.name())?;
        events::present(self.name(), &tracefs, params.text("events"))?;
        allows_the_switch(Path::new(SWITCH))
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Box<dyn Tracing>, Fault> {
        let trace_cmd = program::find(self.name(), "trace-cmd", "trace-cmd")?;
        let params = Params::of(self, scene.job)?;
        let traced = Traced::make(self.name(), &params)?;
        let output = scene.folder.join("trace.dat");
        let mut command = Command::new(&trace_cmd);
        command.args(["record", "-B", traced.instance.name()]);
        if let Some(kib) = params.wish("buffer_kib") {
            command.args(["-b", &kib.to_string()]);
        }
        command.args(traced.events.iter().flat_map(|event| ["-e".to_owned(), event.to_string()]));
        command.arg("-o").arg(&output).current_dir(scene.folder);
        let version = program::version(&trace_cmd)?;
        let mut running = Running::start("trace-cmd", &mut command, scene.folder)?;
        // It switches events on first, starts its readers, and switches tracing on last.
        running.wait_until("sign that it records", START_PATIENCE, |_| traced.is_on())?;
        running.traces_now();
        Ok(Box::new(Recording { running, output, version, traced }))
    }
}

/// Is trace-cmd allowed to write what it must? It is written what it holds already.
fn allows_the_switch(switch: &Path) -> Result<(), Refusal> {
    let refused = |error: io::Error| {
        let why = format!(
            "trace-cmd writes {} whatever it records, and this kernel refuses that: {error}",
            switch.display()
        );
        Refusal::new(Kind::NotHere, "tracer trace-cmd", why)
            .mend("arm ftrace records the same way without trace-cmd")
    };
    match fs::read(switch) {
        // A kernel without the function tracer: trace-cmd goes on then.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(error)),
        Ok(holds) => fs::write(switch, holds).map_err(refused),
    }
}

struct Recording {
    /// Dropped first: it uses the instance.
    running: Running,
    output: PathBuf,
    version: String,
    traced: Traced,
}

impl Tracing for Recording {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        let cpus = self.traced.stats()?;
        let failed = |error| Fault::failed(format!("{}: {error}", self.output.display()));
        Ok(TracerCost {
            // The instance is ours, and outlives trace-cmd: the kernel's own counters are still there.
            events: Some(cpus.iter().map(|cpu| cpu.read + cpu.entries).sum()),
            bytes: Some(fs::metadata(&self.output).map_err(failed)?.len()),
            lost_events: Some(cpus.iter().map(|cpu| cpu.lost()).sum()),
            consumer_cpu_ns: Some(ended.cpu_ns),
            version: self.version,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_refuses_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(allows_the_switch(&folder.path().join("absent")), Ok(()));
        let switch = folder.path().join("switch");
        fs::write(&switch, "1\n").unwrap();
        assert_eq!(allows_the_switch(&switch), Ok(()));
        assert_eq!(fs::read_to_string(&switch).unwrap(), "1\n");
        let refusal = allows_the_switch(folder.path()).unwrap_err();
        assert_eq!((refusal.kind, refusal.mend.is_some()), (Kind::NotHere, true));
    }
}
