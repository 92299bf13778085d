//! A tracer that runs beside the load: started, ready, ended.

use crate::bed;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    time::Duration,
};

/// Nothing here takes that long; it is there so that a run ends.
const PATIENCE: Duration = Duration::from_secs(120);

/// A role in a process of its own, which ends when told, and when this is dropped.
#[derive(Debug)]
pub struct Beside {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Beside {
    /// Starts it and waits until it says `READY`.
    ///
    /// # Errors
    /// If it cannot start, or ends or stays silent instead.
    pub fn start(words: &[String]) -> Result<Self> {
        let mut command = bed::command(words)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| words.join(" "))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("no pipe from the role")?;
        let (to, lines) = sync_channel(64);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        let beside = Self { child, stdin, lines };
        while beside.line().with_context(|| words.join(" "))? != "READY" {}
        Ok(beside)
    }

    fn line(&self) -> Result<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => bail!("no output for {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("exited without output (see above)"),
        }
    }

    /// Gives it a line (what is given, as JSON) and reads its answer.
    ///
    /// # Errors
    /// If it has ended or does not answer.
    pub fn ask<T: serde::de::DeserializeOwned>(&mut self, what: &impl Serialize) -> Result<T> {
        let stdin = self.stdin.as_mut().context("the role has already ended")?;
        stdin.write_all((serde_json::to_string(what)? + "\n").as_bytes())?;
        bed::told(&self.line()?)
    }

    /// Ends it and reads what it has to say.
    ///
    /// # Errors
    /// If it fails.
    pub fn end<T: serde::de::DeserializeOwned>(mut self) -> Result<T> {
        drop(self.stdin.take());
        let last = self.line()?;
        let status = self.child.wait()?;
        ensure!(status.success(), "a role failed: {status}");
        bed::told(&last)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        drop(self.stdin.take());
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            // It cleans up when its input ends; a moment for that, then the hard way.
            std::thread::sleep(Duration::from_millis(200));
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
