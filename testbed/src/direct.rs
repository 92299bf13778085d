//! This machine as a place of jobs: where real KVM is, and for TCG guests.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::job::Place;
use crate::rundir::{Process, RunDir, lock};

/// Jobs run as processes of this machine.
pub(crate) struct Direct {
    jobs: Mutex<HashMap<u64, Process>>,
    next: AtomicU64,
    run: RunDir,
}

impl Direct {
    pub(crate) fn new(lifetime: Duration) -> Result<Self> {
        let run = RunDir::new(lifetime)?;
        run.folder("scratch")?;
        Ok(Self { jobs: Mutex::default(), next: AtomicU64::new(1), run })
    }
}

impl Place for Direct {
    fn run(&self) -> &RunDir {
        &self.run
    }

    fn share(&self) -> PathBuf {
        self.run.path().join("share")
    }

    fn scratch(&self) -> PathBuf {
        self.run.path().join("scratch")
    }

    fn prologue(&self) -> String {
        String::new()
    }

    fn fresh_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn start(&self, number: u64) -> Result<()> {
        let folder = self.share().join("jobs").join(number.to_string());
        let arguments = [OsString::from("sh"), folder.join("script").into()];
        let process = self.run.spawn(&arguments, &folder.join("stdout"), &folder.join("stderr"))?;
        lock(&self.jobs).insert(number, process);
        Ok(())
    }

    fn ended(&self, number: u64) -> Result<Option<i32>> {
        let jobs = lock(&self.jobs);
        let job = jobs.get(&number).with_context(|| format!("there is no job {number}"))?;
        Ok(job.ended()?.map(code))
    }

    fn kill(&self, number: u64) -> Result<()> {
        if let Some(job) = lock(&self.jobs).get(&number) {
            job.kill();
        }
        Ok(())
    }

    fn check_alive(&self) -> Result<()> {
        Ok(())
    }

    fn end(&self) {}

    fn diagnosis(&self) -> String {
        String::new()
    }
}

/// As a shell gives it.
fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
