//! The command that is recorded, if one is.

use anyhow::Context;
use std::{
    ffi::OsString,
    os::unix::process::ExitStatusExt,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

/// How long a command gets to end after it was told to.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// A running command.
pub(super) struct Recorded {
    child: Child,
    name: String,
    status: Option<ExitStatus>,
}

impl Recorded {
    /// Starts it.
    pub(super) fn start(words: &[OsString]) -> anyhow::Result<Option<Self>> {
        let Some((program, args)) = words.split_first() else { return Ok(None) };
        let name = program.to_string_lossy().into_owned();
        let child = Command::new(program)
            .args(args)
            .spawn()
            .with_context(|| format!("cannot start the command {name:?}"))?;
        Ok(Some(Recorded { child, name, status: None }))
    }

    /// Did it end?
    pub(super) fn has_ended(&mut self) -> bool {
        if self.status.is_none() {
            self.status = self.child.try_wait().ok().flatten();
        }
        self.status.is_some()
    }

    /// Did it end, and not well?
    pub(super) fn has_failed(&mut self) -> bool {
        self.has_ended() && !self.status.is_some_and(|status| status.success())
    }

    /// Ends it if it runs still: the recording is over. Says so if it will not.
    pub(super) fn end(&mut self) -> Option<String> {
        if self.has_ended() {
            return None;
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let start = Instant::now();
        while start.elapsed() < END_PATIENCE {
            if self.has_ended() {
                return Some(format!("recording ended: terminated {} with SIGTERM", self.name));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Some(format!(
            "recording ended, but {} (pid {}) ignores SIGTERM and still runs",
            self.name,
            self.child.id()
        ))
    }

    /// Its exit code as shells tell it: 128 + signal if one killed it; 0 while it runs.
    pub(super) fn exit_code(&self) -> u8 {
        let Some(status) = self.status else { return 0 };
        let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
    }

    /// For people: how it ended.
    pub(super) fn describe(&self) -> Option<String> {
        let status = self.status?;
        Some(match (status.code(), status.signal()) {
            (Some(code), _) => format!("{} exited with code {code}", self.name),
            (_, Some(signal)) => format!("{} was killed by signal {signal}", self.name),
            _ => format!("{} ended", self.name),
        })
    }
}
