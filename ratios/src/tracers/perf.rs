//! `perf record -a`.

use super::tracer::{Tracer, Wish};
use crate::{
    bed::{self, Bed, is_installed, output},
    traced::Traced,
};
use anyhow::{Context, Result, bail, ensure};
use procfs::process::Process;
use rustix::{
    fs::Mode,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
};
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Stdio},
};

/// perf, with as much buffer as the others.
#[derive(Clone, Copy, Debug)]
pub struct Perf;

impl Tracer for Perf {
    fn name(&self) -> String {
        "perf record".to_owned()
    }

    fn why_not(&self, _bed: &Bed) -> Option<String> {
        (!is_installed("perf")).then(|| "perf is not installed (linux-perf)".to_owned())
    }

    fn around(&self, bed: &Bed, wish: &Wish, load: &[String]) -> Result<(String, Traced)> {
        let out = bed.scratch()?;
        let file = out.path().join("perf.data");
        let recording = Recording::start(wish, &file, out.path())?;
        let said = output(load)?;
        let cpu_s = recording.end()?;
        let (events, lost) = counts(&file)?;
        let bytes = fs::metadata(&file)?.len();
        Ok((said, Traced { events: Some(events), lost: Some(lost), bytes, cpu_s: Some(cpu_s) }))
    }
}

/// A running `perf record`.
#[derive(Debug)]
pub struct Recording {
    child: Child,
    /// What is written into a FIFO that nobody holds open is lost.
    control: File,
}

impl Recording {
    /// Starts it and comes back when it traces: perf says so through its control FIFOs.
    ///
    /// # Errors
    /// If it cannot start.
    pub fn start(wish: &Wish, file: &Path, scratch: &Path) -> Result<Self> {
        let (control, answers) = (scratch.join("perf.control"), scratch.join("perf.answers"));
        for fifo in [&control, &answers] {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                fifo,
                rustix::fs::FileType::Fifo,
                Mode::RUSR | Mode::WUSR,
                0,
            )?;
        }
        let mut words = vec!["perf", "record", "-q", "-a", "-D", "-1"];
        let (size, events) = (format!("{}K", wish.buffer_kib), wish.events.join(","));
        let fifos = format!("--control=fifo:{},{}", control.display(), answers.display());
        let name = file.display().to_string();
        words.extend(["-m", &size, &fifos, "-e", &events, "-o", &name]);
        let words = wish.place(words.into_iter().map(str::to_owned).collect());
        let mut command = bed::command(&words)?;
        let said = File::create(scratch.join("perf.said"))?;
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).spawn()?;
        let mut recording = Self { child, control: both_ways(&control)? };
        recording.enable(&answers, scratch)?;
        Ok(recording)
    }

    fn enable(&mut self, answers: &Path, scratch: &Path) -> Result<()> {
        let mut answers = BufReader::new(both_ways(answers)?);
        self.control.write_all(b"enable\n")?;
        let fd = rustix::event::PollFd::new(answers.get_ref(), rustix::event::PollFlags::IN);
        let wait = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
        if rustix::event::poll(&mut [fd], Some(&wait))? == 0 {
            let said = fs::read_to_string(scratch.join("perf.said")).unwrap_or_default();
            bail!("perf record did not start: {}", said.trim());
        }
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        ensure!(answer.contains("ack"), "perf answered {answer:?}");
        Ok(())
    }

    /// Ends it; gives its CPU time in seconds, to a hundredth.
    ///
    /// # Errors
    /// If it fails.
    pub fn end(mut self) -> Result<f64> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT)?;
        // Its times can be read as long as nobody has waited for it.
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let stat = Process::new(self.child.id().cast_signed())?.stat()?;
        let status = self.child.wait()?;
        // Having written its file, perf ends by the signal that it was ended with.
        let ended = status.success() || status.signal() == Some(Signal::INT.as_raw());
        ensure!(ended, "perf record: {status}");
        #[expect(clippy::cast_precision_loss, reason = "seconds of a load")]
        let ticks = (stat.utime + stat.stime) as f64;
        #[expect(clippy::cast_precision_loss, reason = "a hundred")]
        let per_second = procfs::ticks_per_second() as f64;
        Ok(ticks / per_second)
    }
}

/// A FIFO opened so neither blocks nor ends if perf dies: then its answer is what is missing.
fn both_ways(path: &Path) -> Result<File> {
    Ok(File::options().read(true).write(true).open(path)?)
}

impl Drop for Recording {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Events in a perf.data and events that perf says were lost.
///
/// # Errors
/// If perf cannot read it.
pub fn counts(file: &Path) -> Result<(u64, u64)> {
    let name = file.display().to_string();
    let words = ["perf", "report", "--stats", "-i", &name].map(str::to_owned);
    let stats = output(&words)?;
    let of = |what: &str| {
        let line = stats.lines().find_map(|line| line.trim().strip_prefix(what));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
    };
    let events = of("SAMPLE events:").context("no samples in perf's statistics")?;
    Ok((events, of("LOST_SAMPLES events:").unwrap_or(0) + of("LOST events:").unwrap_or(0)))
}
