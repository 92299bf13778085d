//! `transect record`, as five arms start it.
//!
//! It records together with a command, which it starts when tracing is on and not before
//! (crates/recorder/src/continuous.rs): that command makes a file, and then waits for somebody who never comes. So
//! its beginning is known, and it costs no CPU time while the workload runs. It is one program and not two: in an emulated
//! guest, where starting `sleep` takes 30 to 100 ms of the only CPU, the workload would pay for that.

use super::{
    END_PATIENCE, START_PATIENCE,
    child::{Ended, Running},
    events, exits,
    params::Params,
    program,
};
use crate::tracer::{Scene, Tracer};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use transect_bench_core::{
    Fault, Job, Refusal,
    protocol::{Param, TracerCost},
};

/// The command: `$0` is the file, `$1` a FIFO that nobody ever opens at its other end: the shell waits in open(2).
const COMMAND: [&str; 3] = ["sh", "-c", ": >\"$0\"; read -r never <\"$1\""];

/// Which collector an arm means. transect takes the other one where it must; an arm does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Collector {
    /// BPF programs.
    Compact,
    /// tracefs.
    Full,
}

/// A recorder that records.
#[derive(Debug)]
pub(crate) struct Recorder {
    running: Running,
    transect: PathBuf,
    output: PathBuf,
    version: String,
}

/// The parameters of all of them.
pub(crate) fn params() -> Vec<(&'static str, Param, &'static str)> {
    vec![
        events::param(),
        ("buffer_kib", Param::Int(0), "buffer of each CPU, KiB; 0: transect's default"),
        ("xen", Param::Text("off".into()), "in a dom0, record Xen too: off or auto"),
    ]
}

/// What all of them need.
pub(crate) fn can_run(arm: &dyn Tracer, job: &Job, collector: Collector) -> Result<(), Refusal> {
    let params = Params::of(arm, job)?;
    program::need_root(arm.name())?;
    let tracefs = events::tracefs(arm.name())?;
    events::present(arm.name(), &tracefs, params.text("events"))?;
    match collector {
        Collector::Compact => need_btf(arm.name()),
        Collector::Full => Ok(()),
    }
}

/// transect's BPF programs are relocated by the kernel's own type information.
pub(crate) fn need_btf(arm: &str) -> Result<(), Refusal> {
    let btf = "/sys/kernel/btf/vmlinux";
    if Path::new(btf).exists() {
        return Ok(());
    }
    let why = format!("this kernel has no {btf}, which BPF programs require");
    Err(Refusal::new(transect_bench_core::Kind::NotHere, format!("tracer {arm}"), why)
        .mend("a kernel with CONFIG_DEBUG_INFO_BTF"))
}

impl Recorder {
    /// Starts it with these words besides, and waits until it records.
    pub(crate) fn start(
        arm: &dyn Tracer,
        scene: &Scene<'_>,
        collector: Collector,
        more: &[String],
    ) -> Result<Self, Fault> {
        let params = Params::of(arm, scene.job)?;
        let (_, events) = events::here(arm.name(), params.text("events"))?;
        let output = scene.folder.join("recording.transect");
        let (begun, fifo) = (scene.folder.join("begun"), scene.folder.join("never"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
            .map_err(|error| Fault::failed(format!("no FIFO {}: {error}", fifo.display())))?;
        let mut command = Command::new(scene.transect);
        command.arg("record").arg("--output").arg(&output);
        command.args(events.iter().flat_map(|event| ["-e".to_owned(), event.to_string()]));
        command.arg("--xen").arg(params.text("xen"));
        command.args((collector == Collector::Full).then_some("--full"));
        if let Some(kib) = params.wish("buffer_kib") {
            command.arg("--buffer-size").arg(format!("{kib}K"));
        }
        command.args(more).arg("--").args(COMMAND).arg(&begun).arg(&fifo);
        let version = program::version(scene.transect)?;
        let mut running = Running::start("transect", &mut command, scene.folder)?;
        running.wait_until("sign that it records", START_PATIENCE, |_| begun.exists())?;
        check_collector(&running, collector)?;
        running.traces_now();
        Ok(Self { running, transect: scene.transect.to_owned(), output, version })
    }

    /// Ends it. Where it left a recording, its manifest says how many events and bytes.
    pub(crate) fn stop(mut self) -> Result<TracerCost, Fault> {
        let ended = self.end()?;
        Ok(TracerCost {
            consumer_cpu_ns: Some(ended.traced_cpu_ns),
            closing_cpu_ns: Some(ended.closing_cpu_ns),
            exits: exits::of(&self.transect, &self.output)?,
            version: self.version,
            ..read_cost(&self.output)?
        })
    }

    /// Ends a flight recorder, which leaves no recording.
    pub(crate) fn stop_without_recording(mut self) -> Result<TracerCost, Fault> {
        let ended = self.end()?;
        Ok(TracerCost { bytes: Some(0), version: self.version, ..ended.cost() })
    }

    /// Has a flight recorder write what it holds, and ends it. Where, and what that was.
    pub(crate) fn stop_with_snapshot(mut self, transect: &Path) -> Result<TracerCost, Fault> {
        self.running.closes_now();
        let pid = self.running.pid().to_string();
        let output = Command::new(transect)
            .args(["snapshot", "--pid", &pid])
            .output()
            .map_err(|error| Fault::failed(format!("cannot start transect snapshot: {error}")))?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Fault::failed(format!("transect snapshot: {why}")));
        }
        self.output = PathBuf::from(said);
        self.stop()
    }

    fn end(&mut self) -> Result<Ended, Fault> {
        let ended = self.running.end(END_PATIENCE)?;
        match ended.is_in_order() {
            true => Ok(ended),
            false => Err(self.running.fault(&ended.how())),
        }
    }
}

/// transect records with the other collector where one lacks something. That would be another arm.
fn check_collector(running: &Running, wanted: Collector) -> Result<(), Fault> {
    let links = bpf_links(running.pid());
    let is_as_wanted = match wanted {
        Collector::Compact => links > 0,
        Collector::Full => links == 0,
    };
    if is_as_wanted {
        return Ok(());
    }
    Err(running.fault("the recording was made by another collector than the arm's"))
}

/// BPF programs that a process holds attached (`fs/proc/fd.c`, `bpf_link_show_fdinfo`).
pub(crate) fn bpf_links(pid: u32) -> usize {
    let Ok(fds) = fs::read_dir(format!("/proc/{pid}/fdinfo")) else { return 0 };
    let is_link = |fd: &fs::DirEntry| {
        fs::read_to_string(fd.path()).is_ok_and(|text| text.contains("link_type:"))
    };
    fds.flatten().filter(is_link).count()
}

/// `cost` of a recording's manifest (docs/reference/record.md).
fn read_cost(recording: &Path) -> Result<TracerCost, Fault> {
    let path = recording.join("manifest.json");
    let failed = |why: String| Fault::failed(format!("{}: {why}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    let manifest: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
    if manifest["finished"] != true {
        return Err(failed("the recording is not finished".to_owned()));
    }
    let number = |name: &str| {
        manifest["cost"][name]
            .as_u64()
            .ok_or_else(|| failed(format!("the recording has no cost.{name}")))
    };
    Ok(TracerCost {
        events: Some(number("events")?),
        bytes: Some(number("bytes")?),
        lost_events: Some(number("lost")?),
        ..TracerCost::default()
    })
}
