//! Recorders and daemons that are killed at random moments.

use super::{
    answer::End,
    daemon::{DATA, Daemon, RECORDING_SETTINGS},
    http::ask,
    random::Random,
    rows::{Names, Whole},
    subjects::Running,
    verbs::{RECORDING, Verb, command},
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// The latest moment of a kill after the start, ms.
const LATEST_MS: u64 = 900;
const DEADLINE: Duration = Duration::from_secs(60);

/// A thread on CPU 0 that numbers its system calls: `lseek` returns the number. The last one is in a file.
const COUNTING: &str = "
import mmap, os, sys, time
with open(sys.argv[1], 'wb') as f: f.write(b'0' * 20)
with open(sys.argv[1], 'r+b') as f:
    shared = mmap.mmap(f.fileno(), 20)
    pause = float(sys.argv[2])
    n = 1
    while True:
        os.lseek(f.fileno(), n, 0)
        shared[:] = b'%020d' % n
        n += 1
        if pause: time.sleep(pause)
";

pub(crate) struct Counting {
    pub(crate) process: Running,
    file: PathBuf,
}

impl Counting {
    pub(crate) fn start(dir: &Path, pause: &str) -> Result<Self> {
        let file = dir.join("count");
        let mut command = Command::new("taskset");
        command.args(["-c", "0", "python3", "-c", COUNTING]).arg(&file).arg(pause);
        let process = Running(command.spawn()?);
        let counting = Counting { process, file };
        wait_for("the load", || counting.last().is_some_and(|n| n > 10))?;
        Ok(counting)
    }

    pub(crate) fn last(&self) -> Option<i64> {
        fs::read_to_string(&self.file).ok()?.parse().ok()
    }

    pub(crate) fn tid(&self) -> i64 {
        // taskset becomes the program.
        self.process.0.id().into()
    }
}

pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !holds() {
        ensure!(begun.elapsed() < DEADLINE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn bytes_of(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |facts| facts.len())
}

/// What the killed recorders left.
#[derive(Debug, Default)]
pub(crate) struct Killed {
    pub(crate) recordings: usize,
    pub(crate) refused: usize,
    pub(crate) events: usize,
    /// Of those that were made behind the last block that was written.
    pub(crate) not_written: i64,
}

/// Kills recorders, half of them after a moment at which all earlier events had been written.
pub(crate) fn kill_recorders(
    scratch: &Path,
    mode: &[&str],
    times: u64,
    random: &mut Random,
) -> Result<Killed> {
    let mut killed = Killed::default();
    let load = Counting::start(scratch, "0.0005")?;
    for turn in 0..times {
        let dir = scratch.join(format!("kill-{turn}"));
        fs::create_dir(&dir)?;
        let words = ["record", "-o", RECORDING, "--profile", "io"];
        let mut recorder = command(&dir)?;
        recorder.args(words).args(mode).stdin(Stdio::null()).stderr(Stdio::null());
        let mut recorder = Running(recorder.spawn()?);
        let recording = dir.join(RECORDING);
        let source = recording.join(if mode.is_empty() { "host.compact" } else { "host.cpu0.raw" });
        let after = Duration::from_millis(random.below(LATEST_MS));
        let mut written = None;
        if turn % 2 == 0 {
            wait_for("events on disk", || bytes_of(&source) > 4096)?;
            thread::sleep(after);
            let last = load.last().context("no count")?;
            // A block of any CPU and of this one may be under way: both are done before the fourth one begins.
            for _ in 0..4 {
                let before = bytes_of(&source);
                wait_for("a further block", || bytes_of(&source) > before)?;
            }
            written = Some(last);
        } else {
            thread::sleep(after);
        }
        recorder.0.kill()?;
        recorder.0.wait()?;
        let made = load.last().context("no count")?;
        let what = format!("turn {turn}, {mode:?}, killed {after:?} after the start");
        check_recording(&dir, &load, written, made, &mut killed).context(what)?;
        fs::remove_dir_all(&dir)?;
    }
    Ok(killed)
}

fn check_recording(
    dir: &Path,
    load: &Counting,
    written: Option<i64>,
    made: i64,
    killed: &mut Killed,
) -> Result<()> {
    let report = Verb::Report.run(dir, &[])?;
    if report.end != End::Code(0) {
        let text = &report.messages;
        ensure!(report.end == End::Code(1) && !text.contains("panicked"), "{}: {text}", report.end);
        let reasons = ["no such recording", "not a recording", "ecord again", "cut off"];
        ensure!(reasons.iter().any(|reason| text.contains(reason)), "no reason: {text}");
        ensure!(written.is_none(), "events were on disk: {text}");
        killed.refused += 1;
        return Ok(());
    }
    let facts: Value = serde_json::from_str(&report.text("stdout"))?;
    ensure!(facts["recording"]["finished"] == false, "reported as finished");
    let rows = Verb::Rows.run(dir, &[])?;
    ensure!(rows.end == End::Code(0), "export: {}", rows.messages);
    let text = rows.text("stdout");
    // A recording beside itself: no two states at once, and no row twice.
    let doubled = Whole::new(&text).compare(&text, Names::AreKept);
    ensure!(doubled.contradictions.is_empty(), "{:?}", doubled.contradictions);
    let numbers = numbers_of(&text, load.tid());
    ensure!(numbers.windows(2).all(|two| two[1] == two[0] + 1), "not each once: {numbers:?}");
    let last = numbers.last().copied();
    if let Some(written) = written {
        ensure!(last >= Some(written), "event {written} had been written, the last is {last:?}");
    }
    ensure!(last.is_none_or(|last| last <= made + 1), "events that were never made");
    let holes = text.lines().filter(|line| line.contains("\"cause\":\"not_written\"")).count();
    ensure!(holes > 0, "no hole behind the last block");
    killed.recordings += 1;
    killed.events += numbers.len();
    killed.not_written = killed.not_written.max(last.map_or(0, |last| made - last));
    Ok(())
}

/// The numbers of the load's system calls, in order of time.
fn numbers_of(text: &str, tid: i64) -> Vec<i64> {
    numbered_of(text, tid).into_iter().map(|(_, number)| number).collect()
}

/// The load's system calls, in order of time: when, and which number.
pub(crate) fn numbered_of(text: &str, tid: i64) -> Vec<(i64, i64)> {
    let rows = text.lines().filter(|line| line.starts_with("{\"table\":\"syscalls\""));
    let rows = rows.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let lseek = match std::env::consts::ARCH {
        "aarch64" | "riscv64" => 62,
        _ => 8,
    };
    let own = rows.filter(|row| row["tid"] == tid && row["nr"] == lseek);
    let mut numbers: Vec<(i64, i64)> =
        own.filter_map(|row| Some((row["ts"].as_i64()?, row["ret"].as_i64()?))).collect();
    numbers.sort_unstable();
    numbers
}

/// Kills daemons on one directory. Each next one starts, and has every window that had been written.
pub(crate) fn kill_daemons(scratch: &Path, times: u64, random: &mut Random) -> Result<usize> {
    let dir = scratch.join("serve");
    fs::create_dir(&dir)?;
    let begun_ns = now_ns();
    let mut written = BTreeSet::new();
    for turn in 0..times {
        let daemon = Daemon::start(&dir, RECORDING_SETTINGS)?;
        let daemon = daemon.map_err(|end| anyhow::anyhow!("turn {turn}: serve: {end}"))?;
        check_history(&daemon, begun_ns, &written).with_context(|| format!("turn {turn}"))?;
        thread::sleep(Duration::from_millis(random.below(2 * LATEST_MS)));
        if turn % 2 == 0 {
            let windows = windows_of(&daemon, "100ms")?;
            // What an answer has is written with the next frame, which is whole when the one behind it begins.
            let newest = || newest_file(&dir.join(DATA).join("history"));
            for _ in 0..2 {
                let before = newest();
                wait_for("a frame", || newest().is_some_and(|(_, n)| n > 0) && newest() != before)?;
            }
            written.extend(windows);
        }
        drop(daemon);
    }
    let daemon = Daemon::start(&dir, RECORDING_SETTINGS)?;
    let daemon = daemon.map_err(|end| anyhow::anyhow!("serve: {end}"))?;
    check_history(&daemon, begun_ns, &written)?;
    for step in ["1s", "10s"] {
        windows_since(&daemon, begun_ns, step)?;
    }
    Ok(written.len())
}

/// The newest file of single windows, and its length.
fn newest_file(history: &Path) -> Option<(PathBuf, u64)> {
    let files = fs::read_dir(history).ok()?.flatten().map(|entry| entry.path());
    let windows = files
        .filter(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("w-")));
    let newest = windows.max()?;
    let bytes = bytes_of(&newest);
    Some((newest, bytes))
}

fn check_history(daemon: &Daemon, begun_ns: u64, written: &BTreeSet<(i64, i64)>) -> Result<()> {
    let windows = windows_since(daemon, begun_ns, "100ms")?;
    let windows: BTreeSet<(i64, i64)> = windows.into_iter().collect();
    let missing: Vec<_> = written.difference(&windows).take(20).collect();
    ensure!(missing.is_empty(), "had been written: {missing:?}");
    Ok(())
}

/// An answer has at most 2,000 steps.
const PIECE_NS: u64 = 150_000_000_000;

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The windows since a moment, as several answers.
fn windows_since(daemon: &Daemon, begun_ns: u64, step: &str) -> Result<Vec<(i64, i64)>> {
    let mut windows = Vec::new();
    let mut from = begun_ns;
    while from < now_ns() {
        let range = format!("from={from}&until={}", from + PIECE_NS);
        windows.extend(windows_in(daemon, &range, step)?);
        from += PIECE_NS;
    }
    Ok(windows)
}

/// Run and time of each window of the last minutes.
pub(crate) fn windows_of(daemon: &Daemon, step: &str) -> Result<Vec<(i64, i64)>> {
    windows_in(daemon, "from=-3m", step)
}

/// No window is there twice, and none overlaps another of its run.
fn windows_in(daemon: &Daemon, range: &str, step: &str) -> Result<Vec<(i64, i64)>> {
    let path = format!("/api/v1/history?{range}&step={step}&tables=machines");
    let (status, body) = ask(&daemon.address, "", &path, None)?;
    ensure!(status == 200, "history: {status}: {}", String::from_utf8_lossy(&body));
    let answer: Value = serde_json::from_slice(&body)?;
    let windows = answer["windows"].as_array().context("no windows")?;
    let mut places: Vec<(i64, i64, i64)> = windows
        .iter()
        .filter_map(|w| Some((w["run"].as_i64()?, w["ts"].as_i64()?, w["dur"].as_i64()?)))
        .collect();
    ensure!(places.len() == windows.len(), "windows without run, ts or dur");
    places.sort_unstable();
    let twice =
        places.windows(2).find(|two| two[0].0 == two[1].0 && two[0].1 + two[0].2 > two[1].1);
    ensure!(twice.is_none(), "step {step}: doubled or overlapping: {twice:?}");
    Ok(places.into_iter().map(|(run, ts, _)| (run, ts)).collect())
}
