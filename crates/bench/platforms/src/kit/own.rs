//! Machines whose workers are processes of this host, in a [`Fence`]: this host itself, and containers.

use crate::{
    kit::{Fence, failed},
    platform::{Bed, Facts, Machine, Pipes, Shape, log_of},
};
use std::ffi::OsString;
use std::fs;
use std::io::BufReader;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use transect_bench_core::{Fault, Kind, Refusal};
use transect_testbed::rundir::{Process, RunDir};

/// How a worker gets into such a machine.
pub(crate) struct OwnPlan<'a> {
    /// The platform's name.
    pub name: &'static str,
    /// What the machine is.
    pub facts: Facts,
    /// CPUs of this host that it gets.
    pub cpus: Vec<u32>,
    /// The shape.
    pub shape: &'a Shape,
    /// The bed.
    pub bed: &'a Bed,
    /// Makes the words that start a worker, from where its things are.
    pub words: &'a dyn Fn(&Roots) -> Result<Vec<OsString>, Fault>,
}

/// Where the things of such a machine are on this host.
pub(crate) struct Roots {
    /// A folder for whatever the mechanism keeps; gone when the machine is.
    pub state: PathBuf,
    /// The machine's own writable folder.
    pub scratch: PathBuf,
    /// The worker's binary.
    pub worker: PathBuf,
    /// A name that no other machine of this host has.
    pub unique: String,
}

/// Lifetimes of machines: longer than any plan's.
pub(crate) const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// A machine of processes of this host.
pub(crate) struct Own {
    name: &'static str,
    facts: Facts,
    words: Vec<OsString>,
    is_this_host: bool,
    log: PathBuf,
    scratch: PathBuf,
    // The order is that of the end: processes, group, folder.
    worker: Option<Process>,
    fence: Fence,
    run: RunDir,
}

impl Own {
    /// Makes it; no worker runs yet.
    pub(crate) fn new(plan: OwnPlan<'_>) -> Result<Self, Fault> {
        let OwnPlan { name, facts, cpus, shape, bed, words } = plan;
        let run = RunDir::new(LIFETIME).map_err(|error| failed(&error))?;
        let fence = Fence::new(&run, shape.memory_mib, &cpus)?;
        let state = run.folder("state").map_err(|error| failed(&error))?;
        let unique = run.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let scratch = bed.scratch.join(&unique);
        fs::create_dir_all(&scratch).map_err(|error| cannot("make", &scratch, &error))?;
        run.at_end(&format!("rm -rf '{}'", scratch.display())).map_err(|error| failed(&error))?;
        let worker = fs::canonicalize(&bed.worker)
            .map_err(|error| cannot("find the worker", &bed.worker, &error))?;
        let roots = Roots { state, scratch, worker, unique };
        let mut words = words(&roots)?;
        words.extend(bed.worker_arguments.iter().map(OsString::from));
        fs::create_dir_all(&bed.logs).map_err(|error| cannot("make", &bed.logs, &error))?;
        let log = log_of(&bed.logs, name, shape.index);
        let is_this_host = facts.accelerator == "none";
        let scratch = roots.scratch;
        Ok(Self { name, facts, words, is_this_host, log, scratch, worker: None, fence, run })
    }

    /// Does a worker run?
    fn is_busy(&self) -> Result<bool, Fault> {
        match &self.worker {
            None => Ok(false),
            Some(worker) => Ok(worker.ended().map_err(|error| failed(&error))?.is_none()),
        }
    }

    /// A worker whose input has ended gets a moment.
    fn wait_for_the_last_one(&self) -> Result<(), Fault> {
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.is_busy()? {
            if Instant::now() > deadline {
                return Err(Fault::failed(format!("{}: a worker still runs", self.name)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Machine for Own {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn worker(&mut self) -> Result<Pipes, Fault> {
        self.wait_for_the_last_one()?;
        self.worker = None;
        self.fence.kill();
        let folder = self.scratch.display();
        let script = format!(
            "{}; cd '{folder}' && export TMPDIR='{folder}'; exec \"$@\"",
            self.fence.enter()
        );
        let mut words: Vec<OsString> = ["sh", "-c", &script, "worker"].map(Into::into).into();
        words.extend(self.words.iter().cloned());
        let (process, to, from) =
            self.run.spawn_piped(&words, &self.log).map_err(|error| failed(&error))?;
        self.worker = Some(process);
        Ok(Pipes { to: Box::new(to), from: Box::new(BufReader::new(from)) })
    }

    fn reach(&mut self, port: u16) -> Result<SocketAddr, Fault> {
        Ok((Ipv4Addr::LOCALHOST, port).into())
    }

    fn gateway(&self) -> Option<IpAddr> {
        Some(Ipv4Addr::LOCALHOST.into())
    }

    fn host_tids(&self) -> Vec<u32> {
        if self.is_this_host { Vec::new() } else { self.fence.tids() }
    }

    fn check_alive(&mut self) -> Result<(), Fault> {
        let Some(worker) = &self.worker else { return Ok(()) };
        let status = worker.ended().map_err(|error| failed(&error))?;
        if status.is_some_and(|status| !status.success()) {
            let said = fs::read(&self.log).unwrap_or_default();
            let said = String::from_utf8_lossy(&said);
            let lines: Vec<_> = said.lines().collect();
            let last = lines[lines.len().saturating_sub(8)..].join("\n");
            return Err(Fault::failed(format!("{}: the worker has ended: {last}", self.name)));
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Fault> {
        // Workers whose pipes are closed are about to end by themselves; the rest is killed by the drop.
        self.wait_for_the_last_one()
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.worker = None;
        self.fence.kill();
        // What a container wrote is nobody's any more; if it cannot be removed, the guard tries again.
        drop(fs::remove_dir_all(&self.scratch));
    }
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Fault {
    let why = format!("cannot {what} {}: {error}", path.display());
    Refusal::new(Kind::NotHere, "a machine's folder", why).into()
}
