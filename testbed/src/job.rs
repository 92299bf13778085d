//! Commands on a host: `host.run("perf stat …").within(30)?`, `host.run("…").spawn()?`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::rundir::RunDir;
use crate::wait::{WaitFor, Watched, tail};

/// Where jobs run: this machine or a nested host. Files of a job are in the run's `share/jobs/N/`.
pub(crate) trait Place: Send + Sync {
    /// The run's folder, on this machine.
    fn run(&self) -> &RunDir;
    /// A path of the run's `share` as commands see it.
    fn share(&self) -> PathBuf;
    /// A writable, quick folder as commands see it; jobs start in it.
    fn scratch(&self) -> PathBuf;
    /// Shell lines that every job begins with.
    fn prologue(&self) -> String;
    /// A number no other job of this place has.
    fn fresh_number(&self) -> u64;
    /// Starts `share/jobs/NUMBER/script`.
    fn start(&self, number: u64) -> Result<()>;
    /// The exit code, once it has ended (128 + the signal's number if a signal ended it).
    fn ended(&self, number: u64) -> Result<Option<i32>>;
    /// Kills the job's session.
    fn kill(&self, number: u64) -> Result<()>;
    /// An error if the place itself has ended.
    fn check_alive(&self) -> Result<()>;
    /// Ends an emulated place, with all that runs there.
    fn end(&self);
    /// What the place's own logs say, for an error message.
    fn diagnosis(&self) -> String;
}

/// A command being described.
#[must_use = "a command runs with .within(seconds) or .spawn()"]
pub struct JobPlan {
    pub(crate) place: Arc<dyn Place>,
    command: String,
    exports: String,
}

impl JobPlan {
    pub(crate) fn new(place: Arc<dyn Place>, command: &str) -> Self {
        Self { place, command: command.to_owned(), exports: String::new() }
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.exports += &format!("export {name}={}\n", quoted(value));
        self
    }

    /// Starts it and comes back at once; the job is killed when the handle is dropped.
    pub fn spawn(self) -> Result<Job> {
        let number = self.place.fresh_number();
        let folder = self.place.run().folder(&format!("share/jobs/{number}"))?;
        let Self { place, command, exports } = self;
        let (prologue, scratch) = (place.prologue(), quoted(&place.scratch().to_string_lossy()));
        let script = format!("{prologue}cd {scratch} || exit 126\n{exports}{command}\n");
        fs::write(folder.join("script"), script).context("cannot write a job")?;
        place.start(number)?;
        Ok(Job { place, number, folder, command, detached: AtomicBool::new(false) })
    }

    /// Runs it to its end; after `seconds` it is killed, and that is an error. A failing command is not an error
    /// here: see [`Output::expect_success`] and [`Output::ok`].
    pub fn within(self, seconds: u64) -> Result<Output> {
        self.spawn()?.finish_within(seconds)
    }
}

/// A running command.
pub struct Job {
    place: Arc<dyn Place>,
    number: u64,
    folder: PathBuf,
    command: String,
    detached: AtomicBool,
}

impl Job {
    /// Waits for a text on its standard output.
    pub fn wait_for(&self, text: &str) -> WaitFor<'_> {
        WaitFor::new(self, text)
    }

    /// The exit code, once it has ended.
    pub fn ended(&self) -> Result<Option<i32>> {
        self.place.ended(self.number)
    }

    /// The exit code, if it has ended and nobody has killed or awaited it.
    pub(crate) fn ended_by_itself(&self) -> Option<i32> {
        if self.detached.load(Ordering::Relaxed) { None } else { self.ended().ok().flatten() }
    }

    /// What it wrote to its standard error so far.
    pub fn stderr(&self) -> Result<String> {
        read(&self.folder.join("stderr"))
    }

    /// Kills it with all it started in its session.
    pub fn kill(&self) -> Result<()> {
        self.detached.store(true, Ordering::Relaxed);
        self.place.kill(self.number)?;
        self.code_before(Instant::now() + Duration::from_secs(10)).map(drop)
    }

    /// Waits for its end; after `seconds` it is killed, and that is an error.
    pub fn finish_within(self, seconds: u64) -> Result<Output> {
        let Some(code) = self.code_before(Instant::now() + Duration::from_secs(seconds))? else {
            let message = format!("`{}` did not end within {seconds} s", self.command);
            return Err(self.too_late(&message));
        };
        self.detached.store(true, Ordering::Relaxed);
        let (stdout, stderr) = (self.said()?, self.stderr()?);
        let logs = self.place.run().path().to_owned();
        Ok(Output { command: self.command.clone(), code, stdout, stderr, logs })
    }

    fn code_before(&self, deadline: Instant) -> Result<Option<i32>> {
        loop {
            let code = self.ended()?;
            if code.is_some() || Instant::now() >= deadline {
                return Ok(code);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Watched for Job {
    fn title(&self) -> String {
        format!("`{}`", self.command)
    }

    fn said(&self) -> Result<String> {
        read(&self.folder.join("stdout"))
    }

    fn over(&self) -> Result<Option<String>> {
        Ok(self.ended()?.map(|code| format!("ended with {code}")))
    }

    fn failure(&self, message: &str) -> anyhow::Error {
        let logs = [self.said(), self.stderr()].map(|text| tail(&text.unwrap_or_default(), 10));
        let beside = self.beside();
        let rest = self.place.diagnosis();
        self.place.run().failure(format!(
            "{message}\n--- stdout\n{}\n--- stderr\n{}\n{beside}{rest}",
            logs[0], logs[1]
        ))
    }

    fn too_late(&self, message: &str) -> anyhow::Error {
        self.place.run().note_lateness();
        self.failure(message)
    }
}

impl Job {
    /// What guests and the last few other jobs of this place said: who waits in vain mostly waits for one of them.
    fn beside(&self) -> String {
        let numbers = (1..self.number.saturating_add(8)).rev().filter(|n| *n != self.number);
        let folders = numbers
            .map(|number| (number, self.place.run().path().join(format!("share/jobs/{number}"))))
            .filter(|(_, folder)| folder.is_dir());
        let mut text = String::new();
        for (number, folder) in folders.take(4) {
            let ended = match self.place.ended(number) {
                Ok(Some(code)) => format!("ended with {code}"),
                Ok(None) => "runs".to_owned(),
                Err(_) => "unknown".to_owned(),
            };
            let [script, stdout, stderr] = [("script", 1), ("stdout", 4), ("stderr", 6)]
                .map(|(name, lines)| tail(&read(&folder.join(name)).unwrap_or_default(), lines));
            text += &format!("--- beside ({ended}): {script}\n{stdout}\n{stderr}\n");
        }
        let guests = fs::read_dir(self.place.run().path().join("share/guests"));
        for guest in guests.into_iter().flatten().flatten() {
            let marks = tail(&read(&guest.path().join("marks")).unwrap_or_default(), 3);
            text += &format!("--- guest {} said last\n{marks}\n", guest.file_name().display());
        }
        text
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.detached.load(Ordering::Relaxed) {
            // If the order cannot be given, the host is gone and the job with it.
            drop(self.place.kill(self.number));
        }
    }
}

/// What a command left.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command, as given.
    pub command: String,
    /// Its exit code (128 + the signal's number if a signal ended it).
    pub code: i32,
    /// Its standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
    /// The run's folder.
    logs: PathBuf,
}

impl Output {
    /// For tests: panics with all that was said unless the command succeeded.
    #[track_caller]
    #[allow(clippy::panic, reason = "this is an assertion of tests")]
    pub fn expect_success(&self) -> &Self {
        if self.code != 0 {
            panic!("{}", self.complaint());
        }
        self
    }

    /// For programs: an error with all that was said unless the command succeeded.
    pub fn ok(self) -> Result<Self> {
        ensure!(self.code == 0, "{}", self.complaint());
        Ok(self)
    }

    fn complaint(&self) -> String {
        let Self { command, code, stdout, stderr, logs } = self;
        let (logs, stdout, stderr) = (logs.display(), tail(stdout, 40), tail(stderr, 40));
        format!(
            "`{command}` ended with {code} in {logs}\n--- stdout\n{stdout}\n--- stderr\n{stderr}\n---"
        )
    }
}

/// A text as one word of the shell.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn read(path: &Path) -> Result<String> {
    match fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn quoting_survives_the_shell() {
        for text in ["plain", "it's", "a b\n$HOME `x` \"q\" \\", ""] {
            let script = format!("printf %s {}", super::quoted(text));
            let out = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(out.stdout).unwrap(), text);
        }
    }
}
