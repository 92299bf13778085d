//! Recorders and daemons that are stopped for a while, as a hypervisor or a debugger does.

use super::{
    answer::End,
    daemon::{Daemon, RECORDING_SETTINGS},
    disks::check_gaps,
    kills::{Counting, numbered_of, wait_for, windows_of},
    rows::{Names, Whole},
    subjects::Running,
    verbs::{RECORDING, Verb, command},
};
use anyhow::{Context, Result, ensure};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

/// So many events do not fit the recorder's buffer of a CPU, of 128 KiB: each takes at least 8 bytes.
const BEYOND_BUFFERS: i64 = 128 * 1024 / 8;
/// Windows of the daemon are gone in much less.
const STOP: Duration = Duration::from_millis(1500);

fn signal(process: &Running, name: &str) -> Result<()> {
    let words = [&format!("-{name}")[..], &process.0.id().to_string()];
    ensure!(Command::new("kill").args(words).status()?.success(), "kill {name}");
    Ok(())
}

/// What was lost while the recorder stood still is counted, and unknown; everything else is there once.
pub(crate) fn check_recorder(scratch: &Path, mode: &[&str]) -> Result<i64> {
    let dir = scratch.join(format!("stopped-{}", mode.len()));
    fs::create_dir(&dir)?;
    let load = Counting::start(&dir, "0")?;
    let words = ["record", "-o", RECORDING, "--profile", "io", "--buffer-size", "128K"];
    let mut recorder = command(&dir)?;
    recorder.args(words).args(mode).stdin(Stdio::null()).stderr(Stdio::null());
    let mut recorder = Running(recorder.spawn()?);
    let source = if mode.is_empty() { "host.compact" } else { "host.cpu0.raw" };
    let bytes = || fs::metadata(dir.join(RECORDING).join(source)).map_or(0, |facts| facts.len());
    wait_for("events", || bytes() > 50_000)?;
    signal(&recorder, "STOP")?;
    let reached = load.last().unwrap_or(0) + BEYOND_BUFFERS;
    wait_for("more events than fit", || load.last().is_some_and(|n| n > reached))?;
    let before = bytes();
    signal(&recorder, "CONT")?;
    wait_for("further events", || bytes() > before + 50_000)?;
    signal(&recorder, "INT")?;
    recorder.0.wait()?;
    let rows = Verb::Rows.run(&dir, &[])?;
    ensure!(rows.end == End::Code(0), "{}", rows.messages);
    let rows = rows.text("stdout");
    let doubled = Whole::new(&rows).compare(&rows, Names::AreKept);
    ensure!(doubled.contradictions.is_empty(), "{:?}", doubled.contradictions);
    let gaps = check_gaps(&rows, &numbered_of(&rows, load.tid()))?;
    ensure!(gaps.missing > 0, "nothing was lost while the recorder stood still");
    let is_full = !mode.is_empty();
    ensure!(is_full || gaps.uncounted == 0, "{} holes have no count", gaps.uncounted);
    Ok(gaps.missing)
}

/// Windows that the daemon did not read while it stood still are a gap; none is there twice.
pub(crate) fn check_daemon(scratch: &Path) -> Result<usize> {
    let dir = scratch.join("stopped-daemon");
    fs::create_dir(&dir)?;
    let daemon = Daemon::start(&dir, RECORDING_SETTINGS)?;
    let daemon = daemon.map_err(|end| anyhow::anyhow!("serve: {end}"))?;
    wait_for("windows", || windows_of(&daemon, "100ms").is_ok_and(|w| w.len() > 5))?;
    daemon.signal("STOP")?;
    thread::sleep(STOP);
    daemon.signal("CONT")?;
    let before = windows_of(&daemon, "100ms")?.len();
    let more = || windows_of(&daemon, "100ms").is_ok_and(|w| w.len() > before + 5);
    wait_for("further windows", more)?;
    let windows = windows_of(&daemon, "100ms")?;
    let (first, last) = (windows.first().context("first")?, windows.last().context("last")?);
    // By the windows' own clock: as many as there would be without the stop, less the gap.
    let expected = (last.1 - first.1) / 100_000_000 + 1;
    let present = i64::try_from(windows.len())?;
    let (status, body) = super::http::ask(
        &daemon.address,
        "",
        "/api/v1/history?from=-3m&step=100ms&tables=machines",
        None,
    )?;
    ensure!(status == 200, "history: {status}");
    let answer: serde_json::Value = serde_json::from_slice(&body)?;
    let steps = answer["windows"].as_array().context("windows")?;
    let missed: i64 = steps.iter().filter_map(|step| step["missed_windows"].as_i64()).sum();
    let longer =
        steps.iter().filter_map(|step| step["dur"].as_i64()).map(|dur| dur / 100_000_000 - 1);
    let longer: i64 = longer.sum();
    ensure!(
        present + longer + missed >= expected,
        "{present} windows and {missed} that are stated as missed of {expected}"
    );
    ensure!(daemon.stop()? == End::Code(0), "did not end in order");
    Ok(usize::try_from(missed)?)
}
