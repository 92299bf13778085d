//! Hostile guests beside an honest one: the recordings of the host and of the honest guest are complete, the recorder's
//! memory is bounded, and SIGTERM ends it.

#![allow(clippy::print_stdout, reason = "memory and time belong in the log")]

use super::support::{Running, can_record, manifest, start_agent, start_load, wait_for};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use transect_e2e::{report, rows, transect};
use transect_testbed::hostile::{HostileAgent, Mode};

/// Hostile guests of one recording; with `TRANSECT_LONG=1` one, so that the memory is that of one.
const AT_ONCE: usize = 7;
/// Memory of a recorder and one hostile guest, and of a recorder and [`AT_ONCE`] of them, KiB.
const ONE_KIB: u64 = 192 << 10;
const ALL_KIB: u64 = 256 << 10;
/// A disk flood has written at least so much, and not more than its share, bytes.
const DISK_BYTES: u64 = 256 << 20;

/// Each guest of these modes is recorded to the end, or fails only there.
const ARE_NOT_CUT_OFF: [Mode; 4] =
    [Mode::ManyThreads, Mode::AllCpus, Mode::SilentAfterStop, Mode::NeverReads];

#[test]
fn hostile_guests_hurt_neither_the_host_nor_an_honest_guest() {
    if !can_record() {
        return;
    }
    let is_long = std::env::var_os("TRANSECT_LONG").is_some();
    let (at_once, limit_kib) = if is_long { (1, ONE_KIB) } else { (AT_ONCE, ALL_KIB) };
    for (number, modes) in Mode::ALL.chunks(at_once).enumerate() {
        let collector = if number % 2 == 0 { &[][..] } else { &["--full"] };
        check(modes, collector, limit_kib).with_context(|| format!("{modes:?}")).unwrap();
    }
}

/// A file system of its own, whose size bounds what floods can write.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(path: std::path::PathBuf) -> Result<Self> {
        fs::create_dir(&path)?;
        let options = format!("size={}", 2 * DISK_BYTES);
        let words = ["-t", "tmpfs", "-o", &options, "tmpfs"];
        ensure!(Command::new("mount").args(words).arg(&path).status()?.success(), "mount");
        Ok(Disk(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn check(modes: &[Mode], collector: &[&str], limit_kib: u64) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let disk = Disk::mount(scratch.path().join("disk"))?;
    let dir = disk.0.join("r.transect");
    let (_agent, address) = start_agent()?;
    let hostile = modes.iter().map(|mode| HostileAgent::start(*mode));
    let hostile = hostile.collect::<Result<Vec<_>, _>>()?;
    let names: Vec<String> = modes.iter().map(|mode| mode.name()).collect();
    let _load = start_load()?;
    let mut words = vec!["record".to_owned(), "-o".to_owned(), dir.display().to_string()];
    words.extend(collector.iter().map(ToString::to_string));
    words.extend(["--guest".to_owned(), format!("name=web,tcp:{address}")]);
    for (name, agent) in names.iter().zip(&hostile) {
        words.extend(["--guest".to_owned(), format!("name={name},tcp:{}", agent.address())]);
    }
    let recorder = Command::new(transect()?).args(&words).stderr(Stdio::piped()).spawn()?;
    let mut recorder = Running(recorder);
    let host = if collector.is_empty() { "host.compact" } else { "host.cpu0.raw" };
    wait_for("events of the host and of the honest guest", || {
        ensure_runs(&mut recorder.0);
        bytes_of(&dir, "guest-web.") > 100_000 && bytes_of(&dir, host) > 100_000
    })?;
    // For the floods.
    thread::sleep(Duration::from_secs(2));
    let stopped = Instant::now();
    Command::new("kill").args(["-TERM", &recorder.0.id().to_string()]).status()?;
    let mut peak_kib = 0;
    let mut is_over = false;
    wait_for("the end", || {
        peak_kib = peak_kib.max(peak_memory(recorder.0.id()).unwrap_or(0));
        is_over = recorder.0.try_wait().is_ok_and(|status| status.is_some());
        is_over
    })?;
    let took = stopped.elapsed();
    let status = recorder.0.wait()?;
    let mut text = String::new();
    let mut stderr = recorder.0.stderr.take().context("stderr")?;
    std::io::Read::read_to_string(&mut stderr, &mut text)?;
    println!("{names:?}: ended {took:.1?} after SIGTERM, at most {peak_kib} KiB\n{text}");
    // A guest with too many threads is recorded without their names.
    let code = i32::from(modes != [Mode::ManyThreads]);
    ensure!(status.code() == Some(code), "{status}: guests are missing");
    ensure!(peak_kib < limit_kib, "{peak_kib} KiB");

    for (mode, name) in modes.iter().zip(&names) {
        if !ARE_NOT_CUT_OFF.contains(mode) {
            let reports = |line: &str| line.contains(&format!("guest {name} (tcp:"));
            ensure!(text.lines().any(reports), "no reason for {name}");
        }
    }
    let manifest = manifest(&dir)?;
    ensure!(manifest["finished"] == true, "not complete");
    ensure!(manifest["ended_by"] == "interrupted by SIGTERM", "{}", manifest["ended_by"]);
    let machines = rows(&manifest, "machines")?;
    ensure!(machines.iter().any(|machine| machine["name"] == "web"), "no honest guest");
    // Of the host, of the honest guest and of any other machine of the host nothing is missing.
    let is_hostile = |id: &Value| {
        machines.iter().any(|m| m["id"] == *id && names.iter().any(|name| m["name"] == **name))
    };
    for what in ["gaps", "not_kept"] {
        let rows = manifest[what].as_array().into_iter().flatten();
        let others: Vec<_> = rows.filter(|row| !is_hostile(&row["machine_id"])).collect();
        ensure!(others.is_empty(), "{what}: {others:?}");
    }
    let report = report(&dir)?;
    ensure!(report["threads"].as_array().is_some_and(|rows| !rows.is_empty()), "empty report");
    drop(hostile);
    Ok(())
}

/// A recorder that has not ended so long after SIGTERM hangs: it waits for a guest.
const HANGS: Duration = Duration::from_secs(30);

/// One guest records and does not answer Stop, another one never starts: nothing is kept, and neither is waited for.
#[test]
fn sigterm_while_guests_start_waits_for_none() {
    if can_record() {
        check_early_end().unwrap();
    }
}

fn check_early_end() -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path().join("r.transect");
    let (stuck, silent) =
        (HostileAgent::start(Mode::SilentAfterStop)?, HostileAgent::start(Mode::Silent)?);
    let guests = [("stuck", &stuck), ("silent", &silent)]
        .map(|(name, agent)| format!("name={name},tcp:{}", agent.address()));
    let mut command = Command::new(transect()?);
    command.args(["record", "-o"]).arg(&dir);
    guests.iter().for_each(|guest| {
        command.args(["--guest", guest]);
    });
    let mut recorder = Running(command.stderr(Stdio::null()).spawn()?);
    wait_for("the guest's source", || {
        let entries = fs::read_dir(&dir).into_iter().flatten().flatten();
        entries
            .into_iter()
            .any(|entry| entry.file_name().to_string_lossy().starts_with("guest-stuck"))
    })?;
    Command::new("kill").args(["-TERM", &recorder.0.id().to_string()]).status()?;
    let begun = Instant::now();
    while recorder.0.try_wait()?.is_none() {
        ensure!(begun.elapsed() < HANGS, "the recorder waits for a guest");
        thread::sleep(Duration::from_millis(20));
    }
    println!("ended {:.1?} after SIGTERM", begun.elapsed());
    Ok(())
}

/// Fails early if the recorder has ended by itself.
fn ensure_runs(recorder: &mut Child) {
    let ended = recorder.try_wait().ok().flatten();
    assert!(ended.is_none(), "the recorder has ended: {ended:?}");
}

/// Bytes of the recording's files whose names begin so.
fn bytes_of(dir: &Path, prefix: &str) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let own = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    own.filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|m| m.len())
        .sum()
}

/// The largest resident set of a process, KiB.
fn peak_memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}
