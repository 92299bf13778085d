//! A recording session of LTTng, with a session daemon of its own: for `lttng-kernel` and `lttng-ust`.
//!
//! The daemon is started for the arm and ends with it, so that what it and its consumers use is the arm's. One that
//! runs already would share its consumers with others: then the arm is refused.

use super::{END_PATIENCE, START_PATIENCE, child::Running, params::Params, program};
use procfs::process::Process;
use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};
use transect_bench_core::{
    Fault, Kind, Refusal,
    protocol::{Param, TracerCost},
};

/// Name of the session and of its channel.
const NAME: &str = "bench";
/// Where root's session daemon says that it is there (lttng-sessiond(8)).
const PID_FILE: &str = "/var/run/lttng/lttng-sessiond.pid";

/// Whom to trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain<'a> {
    /// `-k`, with these probes only: loading all of them takes most of a minute on an emulated machine.
    Kernel(&'a [String]),
    /// `-u`.
    User,
}

/// A session that records.
#[derive(Debug)]
pub(crate) struct Session {
    daemon: Running,
    tools: Tools,
    home: PathBuf,
    trace: PathBuf,
    version: String,
    /// Does the session exist?
    is_there: bool,
}

#[derive(Debug)]
struct Tools {
    lttng: PathBuf,
    sessiond: PathBuf,
    babeltrace: PathBuf,
}

impl Tools {
    fn find(arm: &str) -> Result<Self, Refusal> {
        Ok(Self {
            lttng: program::find(arm, "lttng", "lttng-tools")?,
            sessiond: program::find(arm, "lttng-sessiond", "lttng-tools")?,
            babeltrace: program::find(arm, "babeltrace2", "babeltrace2")?,
        })
    }
}

/// The parameters of a channel.
pub(crate) fn params() -> [(&'static str, Param, &'static str); 2] {
    let number = "sub-buffers of each CPU (--num-subbuf), a power of two; 0: LTTng's default";
    let size = "size of a sub-buffer (--subbuf-size), KiB, a power of two; 0: LTTng's default";
    [("subbuffers", Param::Int(0), number), ("subbuffer_kib", Param::Int(0), size)]
}

/// What both arms need.
pub(crate) fn can_run(arm: &str) -> Result<(), Refusal> {
    Tools::find(arm)?;
    program::need_root(arm)?;
    match other_daemon(Path::new(PID_FILE)) {
        None => Ok(()),
        Some(pid) => Err(Refusal::new(
            Kind::NotHere,
            format!("tracer {arm}"),
            format!(
                "lttng-sessiond {pid} is already running: its resource use could not be separated from the arm's"
            ),
        )
        .mend(format!("end it: kill {pid}"))),
    }
}

/// A session daemon that lives.
fn other_daemon(pid_file: &Path) -> Option<u32> {
    let pid: u32 = fs::read_to_string(pid_file).ok()?.trim().parse().ok()?;
    let name = Process::new(pid.cast_signed()).ok()?.stat().ok()?.comm;
    name.starts_with("lttng-session").then_some(pid)
}

impl Session {
    /// Starts the daemon and a session that records these events; it traces when this comes back.
    pub(crate) fn start(
        arm: &'static str,
        domain: Domain<'_>,
        params: &Params,
        events: &[Vec<String>],
        folder: &Path,
    ) -> Result<Self, Fault> {
        can_run(arm)?;
        let tools = Tools::find(arm)?;
        let version = program::version(&tools.lttng)?;
        let (home, trace) = (folder.join("home"), folder.join("trace"));
        fs::create_dir(&home)
            .map_err(|error| Fault::failed(format!("{}: {error}", home.display())))?;
        let mut command = Command::new(&tools.sessiond);
        command.env("LTTNG_HOME", &home);
        match domain {
            // An empty list would mean all of them.
            Domain::Kernel([]) => command.arg("--kmod-probes=sched"),
            Domain::Kernel(probes) => command.arg(format!("--kmod-probes={}", probes.join(","))),
            Domain::User => command.arg("--no-kernel"),
        };
        let daemon = Running::start("lttng-sessiond", &mut command, folder)?;
        let daemon = daemon.ends_by(Signal::TERM);
        let mut session = Self { daemon, tools, home, trace, version, is_there: false };
        session.begin(domain, params, events)?;
        Ok(session)
    }

    fn begin(
        &mut self,
        domain: Domain<'_>,
        params: &Params,
        events: &[Vec<String>],
    ) -> Result<(), Fault> {
        let (lttng, home) = (self.tools.lttng.clone(), self.home.clone());
        self.daemon.wait_until("answer", START_PATIENCE, |_| {
            lttng_command(&lttng, &home, &["list"]).output().is_ok_and(|it| it.status.success())
        })?;
        let kind = if domain == Domain::User { "-u" } else { "-k" };
        let trace = format!("--output={}", self.trace.display());
        self.say(&["create", NAME, &trace])?;
        self.is_there = true;
        let mut channel = vec!["enable-channel".to_owned(), kind.to_owned(), NAME.to_owned()];
        channel.extend(params.wish("subbuffers").map(|number| format!("--num-subbuf={number}")));
        channel.extend(params.wish("subbuffer_kib").map(|kib| format!("--subbuf-size={kib}k")));
        self.say(&channel)?;
        for event in events {
            let words = ["enable-event", kind, "-c", NAME].map(str::to_owned);
            self.say(&[words.as_slice(), event].concat())?;
        }
        self.say(&["start"])?;
        Ok(())
    }

    /// The workload can begin.
    pub(crate) fn traces_now(&mut self) {
        self.daemon.traces_now();
    }

    /// Waits until `lttng list` of these words says something.
    pub(crate) fn wait_until_listed(
        &mut self,
        words: &[&str],
        what: &str,
        holds: impl Fn(&str) -> bool,
    ) -> Result<(), Fault> {
        let (lttng, home) = (self.tools.lttng.clone(), self.home.clone());
        let words = [&["list"], words].concat();
        self.daemon.wait_until(what, START_PATIENCE, |_| {
            let output = lttng_command(&lttng, &home, &words).output();
            output.is_ok_and(|it| holds(&String::from_utf8_lossy(&it.stdout)))
        })
    }

    /// Ends session and daemon, and counts what was recorded.
    pub(crate) fn stop(mut self) -> Result<TracerCost, Fault> {
        self.daemon.closes_now();
        // Comes back when the consumers have written everything.
        self.say(&["stop"])?;
        let lost = lost_events(&self.say(&["list", NAME])?);
        self.say(&["destroy", NAME])?;
        self.is_there = false;
        let bytes = bytes_below(&self.trace);
        let ended = self.daemon.end(END_PATIENCE)?;
        if !ended.is_in_order() {
            return Err(self.daemon.fault(&ended.how()));
        }
        Ok(TracerCost {
            events: Some(self.count()?),
            bytes: Some(bytes),
            lost_events: lost,
            version: std::mem::take(&mut self.version),
            ..ended.cost()
        })
    }

    /// What babeltrace2 counts in it.
    fn count(&self) -> Result<u64, Fault> {
        let failed = |why: String| Fault::failed(format!("babeltrace2: {why}"));
        let output = Command::new(&self.tools.babeltrace)
            .arg(&self.trace)
            .args(["--component", "sink.utils.counter", "--params", "step=+0"])
            .output()
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let said = String::from_utf8_lossy(&output.stdout);
        counted(&said).ok_or_else(|| failed(format!("it reported no event count: {said}")))
    }

    /// Runs `lttng WORDS`; what it said.
    fn say<S: AsRef<str>>(&self, words: &[S]) -> Result<String, Fault> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let failed = |why: String| {
            Fault::failed(format!(
                "lttng {}: {why}; the daemon: {}",
                words.join(" "),
                self.daemon.last_words()
            ))
        };
        let output = lttng_command(&self.tools.lttng, &self.home, &words)
            .output()
            .map_err(|error| failed(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(said);
        }
        Err(failed(format!("{} {}", said.trim(), String::from_utf8_lossy(&output.stderr).trim())))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The daemon's end ends its sessions, but its consumers write out first what a destroyed session need not.
        if self.is_there {
            let _ = lttng_command(&self.tools.lttng, &self.home, &["destroy", NAME]).output();
        }
    }
}

fn lttng_command(lttng: &Path, home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(lttng);
    // Its own settings, and no daemon of its own making.
    command.args(["--no-sessiond"]).args(words).env("LTTNG_HOME", home);
    command
}

/// "Discarded events: N" of each channel in `lttng list SESSION`.
fn lost_events(list: &str) -> Option<u64> {
    let counts = list.lines().filter_map(|line| line.trim().strip_prefix("Discarded events:"));
    counts.map(|count| count.trim().parse::<u64>().ok()).reduce(|a, b| Some(a? + b?)).flatten()
}

/// The last count of "Event messages" that sink.utils.counter printed.
fn counted(said: &str) -> Option<u64> {
    let mut counts = said.lines().filter_map(|line| {
        let (count, kind) = line.trim().split_once(' ')?;
        kind.starts_with("Event message").then(|| count.parse().ok())?
    });
    counts.next_back()
}

/// Bytes of all files below.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tools_print_is_read() {
        let list = "- bench: [enabled]\n\n  Statistics:\n    Discarded events: 7\n    Discarded events: 5\n";
        assert_eq!(lost_events(list), Some(12));
        assert_eq!(lost_events("nothing"), None);
        let said =
            "  10001 Event messages\n  0 Discarded event messages\n\n  143250 Event messages\n";
        assert_eq!(counted(said), Some(143_250));
        assert_eq!(counted(""), None);
    }

    #[test]
    fn only_a_living_daemon_is_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        assert_eq!(other_daemon(&file), None);
        fs::write(&file, format!("{}\n", std::process::id())).unwrap();
        assert_eq!(other_daemon(&file), None, "not called so");
    }
}
