//! `trace-cmd record`: everything to disk. See `README.md`.

use crate::{
    tools::{
        END_PATIENCE, START_PATIENCE, child::Running, events, instance::Traced, params::Params,
        program,
    },
    tracer::{Scene, Tracer, Tracing},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};
use transect_bench_core::{
    Fault, Job, Kind, Refusal,
    protocol::{Param, TracerCost},
};
use transect_tracefs::CpuStats;

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
        "trace-cmd record: ftrace spliced to disk, converted to a trace.dat"
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
        Ok(Box::new(Recording { running, trace_cmd, output, version, _traced: traced }))
    }
}

/// Is trace-cmd allowed to write what it must? It is written what it holds already.
fn allows_the_switch(switch: &Path) -> Result<(), Refusal> {
    let refused = |error: io::Error| {
        let why = format!(
            "trace-cmd always writes {}, and this kernel rejects the write: {error}",
            switch.display()
        );
        Refusal::new(Kind::NotHere, "tracer trace-cmd", why)
            .mend("use the arm ftrace, which records in the same way without trace-cmd")
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
    trace_cmd: PathBuf,
    output: PathBuf,
    version: String,
    /// Gone by itself if trace-cmd ends in order.
    _traced: Traced,
}

impl Tracing for Recording {
    fn stop(mut self: Box<Self>) -> Result<TracerCost, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.running.fault(&ended.how()));
        }
        let cpus = self.statistics()?;
        let failed = |error| Fault::failed(format!("{}: {error}", self.output.display()));
        Ok(TracerCost {
            // It looks before its readers take what is left, which they do when tracing is off.
            events: Some(cpus.iter().map(|cpu| cpu.read + cpu.entries).sum()),
            bytes: Some(fs::metadata(&self.output).map_err(failed)?.len()),
            lost_events: Some(cpus.iter().map(CpuStats::lost).sum()),
            version: self.version,
            ..ended.cost()
        })
    }
}

impl Recording {
    /// The kernel's counters of each CPU, which trace-cmd puts into the file before it clears them.
    fn statistics(&self) -> Result<Vec<CpuStats>, Fault> {
        let failed = |why: &str| Fault::failed(format!("trace-cmd report --stat: {why}"));
        let output = Command::new(&self.trace_cmd)
            .args(["report", "--stat", "-i"])
            .arg(&self.output)
            .output()
            .map_err(|error| failed(&error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let cpus = statistics(&said);
        match output.status.success() && !cpus.is_empty() {
            true => Ok(cpus),
            false => Err(failed(&format!("{said}{}", String::from_utf8_lossy(&output.stderr)))),
        }
    }
}

/// What `trace-cmd report --stat` prints of each CPU.
fn statistics(said: &str) -> Vec<CpuStats> {
    let Some((_, behind)) = said.split_once("Kernel buffer statistics:") else {
        return Vec::new();
    };
    behind.split("CPU: ").skip(1).map(CpuStats::parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_of_all_cpus_are_read() {
        // Of trace-cmd 3.1.6.
        let said = "\nKernel buffer statistics:\n  Note: \"entries\" are the entries left in the kernel ring buffer and are not\n\
                    \x20       recorded in the trace data. They should all be zero.\n\n\nBuffer: x1\n\n\n\
                    CPU: 0\nentries: 0\noverrun: 7\ncommit overrun: 0\nbytes: 0\noldest event ts:     0.000000\n\
                    now ts:    16.573576\ndropped events: 0\nread events: 3\n\nCPU: 1\nentries: 0\noverrun: 2\n\
                    commit overrun: 0\nbytes: 0\ndropped events: 0\nread events: 1\n\n";
        let cpus = statistics(said);
        assert_eq!(cpus.iter().map(|cpu| cpu.read).collect::<Vec<_>>(), [3, 1]);
        assert_eq!(cpus.iter().map(CpuStats::lost).sum::<u64>(), 9);
        assert!(statistics("trace-cmd: Operation not permitted").is_empty());
    }

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
