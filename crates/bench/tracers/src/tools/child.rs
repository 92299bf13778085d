//! A tracer's process: started, watched, ended in order, and what it used.
#![allow(unsafe_code, reason = "prctl(2) between fork and exec; wait4(2)")]

use super::cpu;
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group,
        set_parent_process_death_signal, waitid,
    },
};
use std::{
    fs::{self, File},
    io,
    mem::MaybeUninit,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_bench_core::{Fault, protocol::TracerCost};

/// Between two looks whether something has happened.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long a process gets to end in order when nobody wants its results any more.
const DROP_PATIENCE: Duration = Duration::from_secs(10);
/// Of what a program said, so much is shown.
const LAST_WORDS: usize = 1500;

/// A process of a tracer, in a group of its own. Dropped, it is ended with everything it started.
#[derive(Debug)]
pub(crate) struct Running {
    name: &'static str,
    pid: Pid,
    end_signal: Signal,
    /// How long it gets until it is told to end once more.
    told_again_every: Option<Duration>,
    said: PathBuf,
    cpu_before_ns: u64,
    /// What it had used when it was told to end.
    cpu_traced_ns: Option<u64>,
    ended: Option<Ended>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    /// The signal that ended it.
    pub(crate) signal: Option<i32>,
    /// CPU time from [`Running::traces_now`] until it was told to end, its own and its children's, ns.
    pub(crate) traced_cpu_ns: u64,
    /// CPU time from then on, its own and that of its children that it waited for, ns.
    pub(crate) closing_cpu_ns: u64,
}

impl Running {
    /// Starts it. What it says goes into `NAME.said` in `folder`. It is told to end by SIGINT, as by ^C.
    pub(crate) fn start(
        name: &'static str,
        command: &mut Command,
        folder: &Path,
    ) -> Result<Self, Fault> {
        let said = folder.join(format!("{name}.said"));
        let failed = |error: io::Error| Fault::failed(format!("cannot start {name}: {error}"));
        let out = File::create(&said).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(out.try_clone().map_err(failed)?).stderr(out);
        // ^C at a terminal is for the procedure, which ends its tracers in order.
        command.process_group(0);
        // SAFETY: between fork and exec only async-signal-safe functions may be called; these are signal(2) and a
        // plain prctl(2).
        unsafe {
            command.pre_exec(|| {
                // Shells start what runs in the background with SIGINT ignored, which is inherited.
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(set_parent_process_death_signal(Some(Signal::INT))?)
            });
        }
        let child = command.spawn().map_err(failed)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| failed(io::ErrorKind::InvalidData.into()))?;
        // Dropping a `Child` neither ends nor reaps it: that is done here, with its CPU time.
        drop(child);
        Ok(Self {
            name,
            pid,
            end_signal: Signal::INT,
            told_again_every: None,
            said,
            cpu_before_ns: 0,
            cpu_traced_ns: None,
            ended: None,
        })
    }

    /// Another signal to end it with.
    pub(crate) fn ends_by(mut self, signal: Signal) -> Self {
        self.end_signal = signal;
        self
    }

    /// It is told to end again and again, until it does: it may not hear the first time.
    pub(crate) fn told_again_every(mut self, time: Duration) -> Self {
        self.told_again_every = Some(time);
        self
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// All that it has said until now.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.said).unwrap_or_default()).into_owned()
    }

    /// The end of it, for error texts.
    pub(crate) fn last_words(&self) -> String {
        let said = self.said();
        let said = said.trim();
        let cut = said.char_indices().rev().nth(LAST_WORDS).map_or(0, |(at, _)| at);
        if said.is_empty() { "it printed nothing".to_owned() } else { said[cut..].to_owned() }
    }

    /// What it used until now does not count: it traces, and the workload can begin.
    pub(crate) fn traces_now(&mut self) {
        self.cpu_before_ns = cpu::until_now_ns(self.pid());
    }

    /// Waits until something holds.
    ///
    /// # Errors
    /// It ended before, or that took longer than `patience`: with what it said.
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        patience: Duration,
        mut holds: impl FnMut(&Self) -> bool,
    ) -> Result<(), Fault> {
        let started = Instant::now();
        while !holds(self) {
            if let Some(ended) = self.look()? {
                return Err(self.fault(&format!("{} before {what}", ended.how())));
            }
            if started.elapsed() > patience {
                return Err(self.fault(&format!("no {what} within {} s", patience.as_secs())));
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Something went wrong with it.
    pub(crate) fn fault(&self, what: &str) -> Fault {
        Fault::failed(format!("{}: {what}: {}", self.name, self.last_words()))
    }

    /// What it uses from here on does not count as tracing: the workload has ended. For what has to be told more than to end.
    pub(crate) fn closes_now(&mut self) {
        self.cpu_traced_ns.get_or_insert(cpu::until_now_ns(self.pid()));
    }

    /// Tells it to end and waits for that.
    ///
    /// # Errors
    /// It does not end in time (it is killed then), or had ended before it was told to: it did not trace all of the run.
    pub(crate) fn end(&mut self, patience: Duration) -> Result<Ended, Fault> {
        if let Some(ended) = self.look()? {
            return Err(self.fault(&format!("{} before the end of the run", ended.how())));
        }
        self.closes_now();
        let _ = kill_process(self.pid, self.end_signal);
        self.wait(patience)
    }

    fn wait(&mut self, patience: Duration) -> Result<Ended, Fault> {
        let started = Instant::now();
        let mut told = started;
        loop {
            if let Some(ended) = self.look()? {
                return Ok(ended);
            }
            if self.told_again_every.is_some_and(|time| told.elapsed() >= time) {
                let _ = kill_process(self.pid, self.end_signal);
                told = Instant::now();
            }
            if started.elapsed() > patience {
                self.kill();
                return Err(self.fault(&format!("did not end within {} s", patience.as_secs())));
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Has it ended?
    fn look(&mut self) -> Result<Option<Ended>, Fault> {
        if self.ended.is_none() && self.is_over() {
            // What it started and did not wait for. Its pid is still its own: it is not reaped yet.
            let _ = kill_process_group(self.pid, Signal::KILL);
            let ended = wait4(self.pid).map_err(|error| self.fault(&format!("wait4: {error}")))?;
            self.ended = ended.map(|reaped| {
                let all = reaped.cpu_ns.saturating_sub(self.cpu_before_ns);
                let traced = self.cpu_traced_ns.unwrap_or(0).saturating_sub(self.cpu_before_ns);
                let traced_cpu_ns = traced.min(all);
                let closing_cpu_ns = all - traced_cpu_ns;
                Ended { code: reaped.code, signal: reaped.signal, traced_cpu_ns, closing_cpu_ns }
            });
        }
        Ok(self.ended)
    }

    /// Has it ended, reaped or not?
    fn is_over(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(self.pid), look), Ok(None) | Err(Errno::INTR))
    }

    fn kill(&mut self) {
        let _ = kill_process_group(self.pid, Signal::KILL);
        while matches!(self.look(), Ok(None)) {
            thread::sleep(LOOK_EVERY);
        }
    }
}

impl Ended {
    /// What it used, as a cost.
    pub(crate) fn cost(&self) -> TracerCost {
        TracerCost {
            consumer_cpu_ns: Some(self.traced_cpu_ns),
            closing_cpu_ns: Some(self.closing_cpu_ns),
            ..TracerCost::default()
        }
    }

    /// For people.
    pub(crate) fn how(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("ended with exit code {code}"),
            (_, Some(signal)) => format!("was killed by signal {signal}"),
            _ => "ended".to_owned(),
        }
    }

    /// Did it end well, or by the signal that it was told to end with?
    pub(crate) fn is_in_order(&self) -> bool {
        let asked = [Signal::INT, Signal::TERM].map(Signal::as_raw);
        // Shells' way to say that a signal ended something; perf says so itself.
        let as_code = asked.map(|signal| 128 + signal);
        self.code.is_some_and(|code| code == 0 || as_code.contains(&code))
            || self.signal.is_some_and(|signal| asked.contains(&signal))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.look(), Ok(None)) {
            let _ = kill_process(self.pid, self.end_signal);
            if self.wait(DROP_PATIENCE).is_err() {
                self.kill();
            }
        }
    }
}

/// An ended child, and all CPU time that it and its children had.
struct Reaped {
    code: Option<i32>,
    signal: Option<i32>,
    cpu_ns: u64,
}

/// Reaps an ended child.
fn wait4(pid: Pid) -> io::Result<Option<Reaped>> {
    let mut status = 0;
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: both pointers are to variables that outlive the call; usage is zeroed in case nothing is written.
    let (reaped, usage) = unsafe {
        let pid = pid.as_raw_nonzero().get();
        let reaped = libc::wait4(pid, &raw mut status, libc::WNOHANG, usage.as_mut_ptr());
        (reaped, usage.assume_init())
    };
    match reaped {
        0 => Ok(None),
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
        _ => Ok(Some(Reaped {
            code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
            signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
            cpu_ns: nanos(usage.ru_utime) + nanos(usage.ru_stime),
        })),
    }
}

fn nanos(time: libc::timeval) -> u64 {
    let s = u64::try_from(time.tv_sec).unwrap_or(0);
    let us = u64::try_from(time.tv_usec).unwrap_or(0);
    s * 1_000_000_000 + us * 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn sh(script: &str, folder: &Path) -> Running {
        Running::start("sh", Command::new("sh").args(["-c", script]), folder).unwrap()
    }

    #[test]
    fn cpu_time_counts_from_when_it_traces_and_the_end_apart_with_the_children() {
        let folder = tempfile::tempdir().unwrap();
        let busy = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let mut it = sh(
            &format!(
                "trap 'sh -c \"{busy}\"; exit 0' INT; {busy}; echo ready; while :; do sleep 0.01; done"
            ),
            folder.path(),
        );
        it.wait_until("ready", SOON, |it| it.said().contains("ready")).unwrap();
        let before = cpu::until_now_ns(it.pid());
        it.traces_now();
        let ended = it.end(SOON).unwrap();
        assert_eq!(ended.code, Some(0));
        let closing = ended.closing_cpu_ns;
        assert!(before > 1_000_000 && closing > 1_000_000, "{before} {ended:?}");
        assert!(closing < before * 10, "what it did before is not in it: {before} {ended:?}");
        assert!(ended.traced_cpu_ns < closing, "its work came after it was told to end: {ended:?}");
    }

    #[test]
    fn what_it_does_while_it_traces_is_no_closing() {
        let folder = tempfile::tempdir().unwrap();
        let mut it = sh("trap 'exit 0' INT; echo ready; while :; do :; done", folder.path());
        it.wait_until("ready", SOON, |it| it.said().contains("ready")).unwrap();
        it.traces_now();
        let before = cpu::until_now_ns(it.pid());
        while cpu::until_now_ns(it.pid()) < before + 50_000_000 {
            thread::sleep(LOOK_EVERY);
        }
        let ended = it.end(SOON).unwrap();
        assert!(ended.traced_cpu_ns >= 50_000_000, "{ended:?}");
        assert!(ended.closing_cpu_ns < ended.traced_cpu_ns, "{ended:?}");
    }

    #[test]
    fn one_that_does_not_hear_is_told_again() {
        let folder = tempfile::tempdir().unwrap();
        let deaf =
            "trap 'n=x$n; [ $n != xx ] || exit 0' INT; echo up; while :; do sleep 0.01; done";
        let mut it = sh(deaf, folder.path()).told_again_every(Duration::from_millis(100));
        it.wait_until("up", SOON, |it| it.said().contains("up")).unwrap();
        assert_eq!(it.end(SOON).unwrap().code, Some(0));
    }

    #[test]
    fn one_that_ends_too_soon_is_told_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut it = sh("echo no such event >&2; exit 3", folder.path());
        let fault = it.wait_until("a sign of life", SOON, |_| false).unwrap_err().to_string();
        assert_eq!(fault, "sh: ended with exit code 3 before a sign of life: no such event");
        let late = it.end(SOON).unwrap_err().to_string();
        assert!(late.contains("before the end of the run"), "{late}");
    }

    #[test]
    fn dropped_it_goes_with_all_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let mut it = sh("sleep 1000 & sleep 1001 & echo up; wait", folder.path());
        it.wait_until("up", SOON, |it| it.said().contains("up")).unwrap();
        it.wait_until("children", SOON, |it| cpu::family(it.pid()).len() == 3).unwrap();
        let family = cpu::family(it.pid());
        drop(it);
        let started = Instant::now();
        let lives = |pid: &u32| {
            procfs::process::Process::new(pid.cast_signed()).is_ok_and(|process| process.is_alive())
        };
        while family.iter().any(lives) {
            assert!(started.elapsed() < SOON, "still there: {family:?}");
            thread::sleep(LOOK_EVERY);
        }
    }
}
