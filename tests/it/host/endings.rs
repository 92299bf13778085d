//! Recordings that end with a guest: its agent is killed, or the disk has no more space.
//!
//! The guest is this machine, whose kernel the agent records over a TCP connection: the same agent, protocol and recorder
//! as with a real one.

#![allow(clippy::print_stdout, reason = "a skipped test names its reason in the log")]

use super::support::{Running, can_record, manifest, start_agent, start_load, text_of, wait_for};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::Duration,
};
use transect_e2e::{report, rows, table_rows, transect};

/// Bytes of the guest's events on disk.
fn guest_bytes(dir: &Path) -> u64 {
    let is_events = |name: &str| {
        name.starts_with("guest-") && (name.ends_with(".raw") || name.ends_with(".compact"))
    };
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let of_guest = entries.filter(|entry| is_events(&entry.file_name().to_string_lossy()));
    of_guest.filter_map(|entry| entry.metadata().ok()).map(|facts| facts.len()).sum()
}

/// From the first to the last clock exchange with the guest, ns: each asks the agent for what it has read so far.
fn exchanged_ns(dir: &Path) -> u64 {
    let text = fs::read_to_string(dir.join("clocks.jsonl")).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let sent: Vec<u64> = lines.filter_map(|line| line["host_send"].as_u64()).collect();
    sent.first().zip(sent.last()).map_or(0, |(first, last)| last.saturating_sub(*first))
}

fn id_of(manifest: &Value, name: &str) -> Result<i64> {
    let machine = rows(manifest, "machines")?.iter().find(|machine| machine["name"] == name);
    machine.and_then(|machine| machine["id"].as_i64()).context("no such machine")
}

/// When the last known slice of a machine's CPUs ends.
fn last_known(rows: &[Value], machine: i64) -> Option<i64> {
    let known = rows.iter().filter(|row| {
        row["table"] == "cpu_slices" && row["machine_id"] == machine && !row["tid"].is_null()
    });
    known.filter_map(|row| Some(row["ts"].as_i64()? + row["dur"].as_i64()?)).max()
}

/// The end of the recording.
fn end_of(rows: &[Value]) -> i64 {
    let ends = rows.iter().filter_map(|row| Some(row["ts"].as_i64()? + row["dur"].as_i64()?));
    ends.max().unwrap_or(0)
}

/// Has the machine a hole of this cause that lasts until the end?
fn is_lost_at_end(rows: &[Value], machine: i64, cause: &str) -> bool {
    let end = end_of(rows);
    rows.iter().any(|row| {
        let until = row["ts"].as_i64().zip(row["dur"].as_i64()).map(|(ts, dur)| ts + dur);
        let is_hole = row["table"] == "lost" && row["machine_id"] == machine;
        is_hole && row["cause"] == cause && until == Some(end)
    })
}

#[test]
fn killed_agent_is_reported_by_every_verb() {
    if can_record() {
        for mode in [&["--full"][..], &[]] {
            check_killed_agent(mode).unwrap();
        }
    }
}

fn check_killed_agent(mode: &[&str]) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let dir = scratch.path().join("r.transect");
    let (mut agent, address) = start_agent()?;
    let guest = format!("name=web,tcp:{address}");
    let _load = start_load()?;
    let mut words = vec!["record", "--profile", "io", "--guest", &guest, "-o"];
    words.push(dir.to_str().context("path")?);
    words.extend_from_slice(mode);
    let recorder = Command::new(transect()?).args(&words).stderr(Stdio::piped()).spawn()?;
    // Whole pages of it, and the agent's word that nothing is missing among them: some of its states are known then.
    wait_for("the guest's events", || {
        guest_bytes(&dir) > 200_000 && exchanged_ns(&dir) > 2_000_000_000
    })?;
    agent.0.kill()?;
    agent.0.wait()?;
    thread::sleep(Duration::from_millis(500));
    Command::new("kill").args(["-INT", &recorder.id().to_string()]).status()?;
    let output = recorder.wait_with_output()?;
    let text = text_of(&output);
    ensure!(output.status.code() == Some(1), "events are missing: {text}");
    ensure!(text.contains("guest web"), "{text}");
    let manifest = manifest(&dir)?;
    ensure!(manifest["ended_by"] == "interrupted by SIGINT" && manifest["finished"] == true);
    let web = id_of(&manifest, "web")?;
    let gaps: Vec<_> =
        rows(&manifest, "gaps")?.iter().filter(|gap| gap["machine_id"] == web).collect();
    ensure!(gaps.iter().any(|gap| gap["cause"] == "guest_disconnected"), "{gaps:?}");
    let table = table_rows(&dir)?;
    ensure!(is_lost_at_end(&table, web, "guest_disconnected"), "no hole lasts until the end");
    let known = last_known(&table, web).context("nothing known of the guest")?;
    ensure!(known < end_of(&table), "known until the end: {known}");
    let page =
        Command::new(transect()?).args(["report", "--view", "recording"]).arg(&dir).output()?;
    let page =
        String::from_utf8_lossy(&page.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    ensure!(page.contains("the guest web (guest_disconnected) was lost before the end"), "{page}");
    let lost = report(&dir)?["lost"].to_string();
    ensure!(lost.contains("guest_disconnected"), "{lost}");
    let doctor = Command::new(transect()?).args(["doctor"]).arg(&dir).output()?;
    let page = String::from_utf8_lossy(&doctor.stdout).into_owned();
    ensure!(doctor.status.code() == Some(1) && page.contains("web (guest_disconnected)"), "{page}");
    Ok(())
}

/// A small file system that is unmounted in the end.
struct Tiny(PathBuf);

impl Tiny {
    fn mount(path: PathBuf, size: &str) -> Result<Option<Self>> {
        fs::create_dir(&path)?;
        let size = format!("size={size}");
        let words = ["-t", "tmpfs", "-o", &size, "tmpfs"];
        let mounted = Command::new("mount").args(words).arg(&path).status()?;
        if !mounted.success() {
            println!("skipped: cannot mount a tmpfs here");
        }
        Ok(mounted.success().then_some(Tiny(path)))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// A guest whose kernel has as many events as it can, recorded beside a host of whose system calls none are recorded: its
/// filters do not apply to the guest.
fn start_flooded(mode: &[&str], dir: &Path, address: &str) -> Result<(Running, Running)> {
    let flood =
        Command::new("python3").args(["-c", "import os\nwhile True: os.getppid()"]).spawn()?;
    let flood = Running(flood);
    let guest = format!("name=web,tcp:{address}");
    let mut words = vec!["record", "--profile", "io", "--duration", "50s", "--guest", &guest];
    words.extend_from_slice(mode);
    words.extend_from_slice(&["-o", dir.to_str().context("path")?]);
    let pid = std::process::id();
    let filters = match mode.is_empty() {
        true => vec![format!("pid={pid}")],
        false => ["sys_enter", "sys_exit"]
            .map(|event| format!("raw_syscalls:{event} if common_pid == {pid}"))
            .to_vec(),
    };
    for filter in &filters {
        words.extend(["--filter", filter]);
    }
    let recorder = Command::new(transect()?).args(&words).stderr(Stdio::piped()).spawn()?;
    Ok((Running(recorder), flood))
}

/// Waits for a recorder, and returns its exit code and messages.
fn end_of_recorder(mut recorder: Running) -> Result<(Option<i32>, String)> {
    let status = recorder.0.wait()?;
    let mut text = String::new();
    let stderr = recorder.0.stderr.as_mut().context("stderr")?;
    std::io::Read::read_to_string(stderr, &mut text)?;
    Ok((status.code(), text))
}

#[test]
fn guest_that_exceeds_its_part_of_the_disk_is_cut_off_and_the_host_goes_on() {
    if can_record() {
        for mode in [&["--full"][..], &[]] {
            check_disk_share(mode).unwrap();
        }
    }
}

fn check_disk_share(mode: &[&str]) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    // The full collector needs room twice at the end, for the parts and for the file made of them; how much the host
    // records besides, the other tests on it decide.
    let Some(tiny) = Tiny::mount(scratch.path().join("tiny"), "48m")? else { return Ok(()) };
    let dir = tiny.0.join("r.transect");
    let (_agent, address) = start_agent()?;
    let (recorder, flood) = start_flooded(mode, &dir, &address)?;
    let is_cut_off = || {
        let manifest = manifest(&dir).unwrap_or_default();
        manifest["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty())
    };
    wait_for("the end of the guest's recording", is_cut_off)?;
    drop(flood);
    thread::sleep(Duration::from_millis(300));
    Command::new("kill").args(["-INT", &recorder.0.id().to_string()]).status()?;
    let (code, text) = end_of_recorder(recorder)?;
    ensure!(code == Some(1), "{text}");
    ensure!(text.contains("cut off: it sent more than"), "{text}");
    ensure!(text.contains("guest web: not recorded to the end"), "{text}");
    let manifest = manifest(&dir)?;
    let is_in_order = manifest["ended_by"] == "interrupted by SIGINT";
    ensure!(manifest["finished"] == true && is_in_order, "{text}");
    let web = id_of(&manifest, "web")?;
    ensure!(manifest["gaps"][0]["cause"] == "guest_cut_off", "{}", manifest["gaps"]);
    let table = table_rows(&dir)?;
    ensure!(is_lost_at_end(&table, web, "guest_cut_off"), "no hole lasts until the end");
    let known = last_known(&table, web).context("nothing known of the guest")?;
    let host = last_known(&table, 0).context("nothing known of the host")?;
    ensure!(known < host, "the guest is known until {known}, the host until {host}");
    Ok(())
}

#[test]
fn disk_that_is_full_beside_a_guest_ends_the_recording_with_that_reason() {
    if can_record() {
        for mode in [&["--full"][..], &[]] {
            check_full_disk(mode).unwrap();
        }
    }
}

fn check_full_disk(mode: &[&str]) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let Some(tiny) = Tiny::mount(scratch.path().join("tiny"), "200m")? else { return Ok(()) };
    let dir = tiny.0.join("r.transect");
    let (_agent, address) = start_agent()?;
    let (recorder, flood) = start_flooded(mode, &dir, &address)?;
    wait_for("the guest's events", || guest_bytes(&dir) > 600_000)?;
    // Another program takes the rest of the disk.
    let mut ballast = fs::File::create(tiny.0.join("ballast"))?;
    for piece in [1 << 20, 4096] {
        while std::io::Write::write_all(&mut ballast, &vec![0; piece]).is_ok() {}
    }
    let (code, text) = end_of_recorder(recorder)?;
    drop(flood);
    ensure!(code == Some(1), "{text}");
    ensure!(text.contains("recording ended early: the file system is full"), "{text}");
    ensure!(text.contains("of web"), "the guest's CPUs are named: {text}");
    let manifest = manifest(&dir)?;
    ensure!(manifest["finished"] == true && manifest["ended_by"] == "disk_full", "{text}");
    let web = id_of(&manifest, "web")?;
    let not_kept: Vec<_> =
        rows(&manifest, "not_kept")?.iter().filter(|row| row["machine_id"] == web).collect();
    if not_kept.is_empty() {
        bail!("the manifest has no CPU of the guest: {text}");
    }
    let table = table_rows(&dir)?;
    ensure!(is_lost_at_end(&table, web, "disk_full"), "no hole lasts until the end");
    let known = last_known(&table, web).context("nothing known of the guest")?;
    ensure!(known < end_of(&table), "known until the end: {known}");
    Ok(())
}
