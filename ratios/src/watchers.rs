//! What watches a host while a load runs: `transect serve` with and without front ends, and what people use
//! today. Each is a process that is started, waited for, and ended.

mod front_ends;

pub use front_ends::FrontEnds;

use crate::bed::{self, Bed, is_installed};
use anyhow::{Context, Result, bail, ensure};
use procfs::process::Process;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    time::{Duration, Instant},
};

/// Nothing here takes that long to begin or to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What `perf kvm stat live` takes to attach its events.
const PERF_BEGINS: Duration = Duration::from_secs(2);

/// A process that watches.
#[derive(Debug)]
pub struct Watcher {
    child: Child,
    lines: Receiver<String>,
}

impl Watcher {
    /// Starts it; what it says on `says` is read line by line.
    fn start(words: &[String], says: Says) -> Result<Self> {
        let mut command = bed::command(words)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        match says {
            Says::Out => command.stdout(Stdio::piped()),
            Says::Error => command.stderr(Stdio::piped()),
        };
        let mut child = command.spawn().with_context(|| words.join(" "))?;
        let from: Box<dyn std::io::Read + Send> = match says {
            Says::Out => Box::new(child.stdout.take().context("no pipe")?),
            Says::Error => Box::new(child.stderr.take().context("no pipe")?),
        };
        let (to, lines) = sync_channel(64);
        // Reads for as long as there is something: what nobody waits for is thrown away.
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                let _ = to.try_send(line);
            }
        });
        Ok(Self { child, lines })
    }

    /// What follows `prefix` in the first line that has it.
    fn wait_for(&self, prefix: &str) -> Result<String> {
        let begun = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let line = self.lines.recv_timeout(left);
            let line = line.with_context(|| format!("the watcher did not print {prefix:?}"))?;
            if let Some((_, rest)) = line.split_once(prefix) {
                return Ok(rest.to_owned());
            }
        }
    }

    /// CPU time of all its threads so far, ns; those that have ended are not in it.
    ///
    /// # Errors
    /// If it is gone.
    pub fn cpu_ns(&self) -> Result<u64> {
        let mut sum = 0;
        for thread in self.process()?.tasks()? {
            sum += thread?.schedstat()?.sum_exec_runtime;
        }
        Ok(sum)
    }

    /// Resident memory, bytes.
    ///
    /// # Errors
    /// If it is gone.
    pub fn memory_bytes(&self) -> Result<u64> {
        let status = self.process()?.status()?;
        Ok(status.vmrss.context("no VmRSS")? * 1024)
    }

    fn process(&self) -> Result<Process> {
        Ok(Process::new(self.child.id().cast_signed())?)
    }

    /// Kills it.
    ///
    /// # Errors
    /// If it ended before.
    fn kill(mut self) -> Result<()> {
        ensure!(self.child.try_wait()?.is_none(), "the watcher exited before the load");
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Ends it.
    ///
    /// # Errors
    /// If it ended before, or does not end.
    pub fn end(mut self) -> Result<()> {
        ensure!(self.child.try_wait()?.is_none(), "the watcher exited before the load");
        kill_process(Pid::from_child(&self.child), Signal::INT)?;
        let begun = Instant::now();
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > PATIENCE {
                bail!("the watcher did not exit");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Says {
    Out,
    Error,
}

/// Who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// Nobody, twice: what the method cannot see.
    Nobody,
    /// `transect serve` as it is installed: windows, history, flight recorder; nobody asks it.
    Serve,
    /// The same with two front ends.
    ServeAsked,
    /// Without the flight recorder.
    ServeWindows,
    /// `runqlat` and `cpudist` of the bcc tools, as one bpftrace script.
    RunQueue,
    /// KVM's exits by reason with their durations, in bpftrace.
    Exits,
    /// `perf kvm stat live`.
    PerfKvm,
}

impl Who {
    /// All of them.
    pub const ALL: [Who; 7] = [
        Who::Nobody,
        Who::Serve,
        Who::ServeAsked,
        Who::ServeWindows,
        Who::RunQueue,
        Who::Exits,
        Who::PerfKvm,
    ];

    /// Its name in rows.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Who::Nobody => "nothing",
            Who::Serve => "serve",
            Who::ServeAsked => "serve-asked",
            Who::ServeWindows => "serve-windows",
            Who::RunQueue => "bpftrace-runqlat",
            Who::Exits => "bpftrace-exits",
            Who::PerfKvm => "perf-kvm",
        }
    }

    /// What it is.
    #[must_use]
    pub fn what(self) -> &'static str {
        match self {
            Who::Nobody => "no watcher: resolution of the method",
            Who::Serve => "transect serve at rest, flight recorder on (its default)",
            Who::ServeAsked => "transect serve with a dashboard and Prometheus, flight recorder on",
            Who::ServeWindows => "transect serve at rest, flight recorder off",
            Who::RunQueue => {
                "bpftrace: run-queue latencies and time on CPU by process, as runqlat and cpudist"
            }
            Who::Exits => "bpftrace: KVM's exits by reason with durations",
            Who::PerfKvm => "perf kvm stat live -a",
        }
    }

    /// Why it cannot be had here.
    #[must_use]
    pub fn why_not(self) -> Option<String> {
        let lacks = |program: &str, package: &str| {
            (!is_installed(program)).then(|| format!("{program} is not installed ({package})"))
        };
        let has_kvm = std::path::Path::new("/sys/kernel/tracing/events/kvm/kvm_exit").exists();
        let no_kvm = (!has_kvm).then(|| "no KVM here".to_owned());
        match self {
            Who::Nobody => None,
            Who::Serve | Who::ServeAsked | Who::ServeWindows => {
                transect_bpf::can_run().err().map(|why| why.to_string())
            }
            Who::RunQueue => lacks("bpftrace", "bpftrace"),
            Who::Exits => lacks("bpftrace", "bpftrace").or(no_kvm),
            Who::PerfKvm => lacks("perf", "linux-perf").or(no_kvm),
        }
    }

    /// Runs `load` while it watches; gives what the load said. Watchers have the other CPU, so that what the load
    /// pays is what is done in its own context.
    ///
    /// # Errors
    /// If either fails.
    pub fn around(self, bed: &Bed, load: &[String]) -> Result<String> {
        let watching = match self {
            Who::Nobody => return bed::output(load),
            Who::Serve | Who::ServeAsked | Who::ServeWindows => {
                let serving = Serving::start(bed, self != Who::ServeWindows)?;
                let front_ends = (self == Who::ServeAsked)
                    .then(|| FrontEnds::start(serving.address))
                    .transpose()?;
                let said = bed::output(load)?;
                if let Some(front_ends) = front_ends {
                    front_ends.end()?;
                }
                serving.watcher.end()?;
                return Ok(said);
            }
            Who::RunQueue => scripted(bed, "runqlat.bt", RUN_QUEUE)?,
            Who::Exits => scripted(bed, "exits.bt", EXITS)?,
            Who::PerfKvm => {
                let words = ["perf", "kvm", "stat", "live", "-a", "-d", "1"].map(str::to_owned);
                let watcher = Watcher::start(&bed::on_consumer_cpu(words.into()), Says::Out)?;
                // It says nothing into a pipe before it ends.
                std::thread::sleep(PERF_BEGINS);
                watcher
            }
        };
        let said = bed::output(load)?;
        match self {
            // It does not end when it is asked to while its input is not a terminal.
            Who::PerfKvm => watching.kill()?,
            _ => watching.end()?,
        }
        Ok(said)
    }
}

/// `transect serve`, ready.
#[derive(Debug)]
pub struct Serving {
    /// The process.
    pub watcher: Watcher,
    /// Where it listens.
    pub address: SocketAddr,
    _scratch: tempfile::TempDir,
}

impl Serving {
    /// Starts it, and waits for its first window.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn start(bed: &Bed, has_recorder: bool) -> Result<Self> {
        let scratch = bed.scratch()?;
        let config: PathBuf = scratch.path().join("serve.toml");
        fs::write(&config, format!("[flight_recorder]\nenabled = {has_recorder}\n"))?;
        let (config, data) = (config.display().to_string(), scratch.path().display().to_string());
        let transect = bed.transect.display().to_string();
        let words =
            [&transect, "serve", "--config", &config, "--data", &data, "--listen", "127.0.0.1:0"];
        let words = words.map(str::to_owned).into();
        let watcher = Watcher::start(&bed::on_consumer_cpu(words), Says::Error)?;
        let address = watcher.wait_for("serving http://")?;
        let address = address.trim_end_matches('/').parse()?;
        let begun = Instant::now();
        while front_ends::get(address, "/readyz", "*/*").is_err() {
            ensure!(begun.elapsed() < PATIENCE, "transect serve has no window");
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(Self { watcher, address, _scratch: scratch })
    }
}

fn scripted(bed: &Bed, name: &str, script: &str) -> Result<Watcher> {
    let file = bed.file(name, script)?;
    let words = ["bpftrace", "-B", "line", &file].map(str::to_owned);
    let watcher = Watcher::start(&bed::on_consumer_cpu(words.into()), Says::Out)?;
    watcher.wait_for("READY")?;
    Ok(watcher)
}

/// What `runqlat` and `cpudist` of bcc and bpftrace's tools do, by process instead of for all alike: for whom.
const RUN_QUEUE: &str = r#"
tracepoint:sched:sched_wakeup, tracepoint:sched:sched_wakeup_new { @woken[args->pid] = nsecs; }
tracepoint:sched:sched_switch {
    $now = nsecs;
    if (args->prev_state == 0) { @woken[args->prev_pid] = $now; }
    $on = @on[args->prev_pid];
    if ($on) { @cpudist[args->prev_pid] = hist($now - $on); }
    $woken = @woken[args->next_pid];
    if ($woken) { @runqlat[args->next_pid] = hist($now - $woken); delete(@woken[args->next_pid]); }
    @on[args->next_pid] = $now;
}
interval:s:1 { printf("READY\n"); clear(@runqlat); clear(@cpudist); }
"#;

/// Exits by reason with their durations.
const EXITS: &str = r#"
tracepoint:kvm:kvm_exit { @begun[tid] = nsecs; @reason[tid] = args->exit_reason; }
tracepoint:kvm:kvm_entry {
    $begun = @begun[tid];
    if ($begun) { @exits[@reason[tid]] = hist(nsecs - $begun); delete(@begun[tid]); }
}
interval:s:1 { printf("READY\n"); clear(@exits); }
"#;
