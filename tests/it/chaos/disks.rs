//! Disks that are full while verbs and the daemon write.

#![allow(clippy::print_stdout, reason = "a skipped test names its reason in the log")]

use super::{
    answer::{Answer, DEADLINE, End},
    daemon::{Daemon, RECORDING_SETTINGS},
    files::copy_tree,
    http::ask,
    judge::{Outcome, refusals},
    kills::{Counting, numbered_of, wait_for, windows_of},
    rows::{Names, Whole},
    subjects::Subject,
    verbs::{RECORDING, Verb, command},
};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

/// A file system of its own, which is unmounted in the end.
pub(crate) struct Tmpfs(PathBuf);

impl Tmpfs {
    /// None where this is not possible.
    pub(crate) fn mount(path: PathBuf, size: &str) -> Result<Option<Self>> {
        fs::create_dir(&path)?;
        let size = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(&path)
            .status()?;
        if !mounted.success() {
            println!("skipped: cannot mount a tmpfs here");
        }
        Ok(mounted.success().then_some(Tmpfs(path)))
    }

    /// Takes all space.
    fn fill(&self) -> Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.0.join("ballast"))?;
        for piece in [1 << 20, 4096, 1] {
            while ballast.write_all(&vec![1; piece]).is_ok() {}
        }
        Ok(())
    }

    fn free(&self) -> Result<()> {
        fs::remove_file(self.0.join("ballast")).context("free the disk")
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Runs each verb on a copy without tables and tiles while the disk fills up, and again with space.
pub(crate) fn check_verbs(
    scratch: &Path,
    subject: &Subject,
    free_kib: &[u64],
) -> Result<Vec<(u64, Verb, Outcome)>> {
    let Some(disk) = Tmpfs::mount(scratch.join("disk"), "64m")? else { return Ok(Vec::new()) };
    let mut outcomes = Vec::new();
    for (verb, reference) in &subject.references {
        for &free_kib in free_kib {
            let dir = disk.0.join("case");
            copy_tree(&subject.dir, &dir)?;
            for derived in ["tables", "view"] {
                fs::remove_dir_all(dir.join(RECORDING).join(derived))?;
            }
            for file in ["stdout", "stderr"] {
                // Where a report goes is not what is tested.
                let elsewhere = scratch.join(file);
                std::os::unix::fs::symlink(elsewhere, dir.join(file))?;
            }
            let room = vec![1; usize::try_from(free_kib << 10)?];
            fs::write(disk.0.join("room"), room)?;
            disk.fill()?;
            fs::remove_file(disk.0.join("room"))?;
            let answer = verb.run(&dir, &subject.import)?;
            let outcome = judge_without_space(&reference.answer, &answer)
                .with_context(|| format!("{verb} with {free_kib} KiB"))?;
            outcomes.push((free_kib, *verb, outcome));
            disk.free()?;
            for left in ["output", "x.transect"] {
                let _ = fs::remove_file(dir.join(left));
                let _ = fs::remove_dir_all(dir.join(left));
            }
            let again = verb.run(&dir, &subject.import)?;
            ensure!(
                again.end == End::Code(0) && again.parts == reference.answer.parts,
                "{verb} after {free_kib} KiB, with space: {}: {}",
                again.end,
                again.messages
            );
            fs::remove_dir_all(&dir)?;
        }
    }
    Ok(outcomes)
}

/// The whole answer, or an error with the reason; never a part.
fn judge_without_space(whole: &Answer, answer: &Answer) -> Result<Outcome> {
    ensure!(!answer.messages.contains("panicked"), "{}", answer.messages);
    let refused = refusals(answer);
    if answer.end == End::Code(0) && refused.is_empty() {
        ensure!(answer.parts == whole.parts, "another answer: {}", answer.messages);
        return Ok(Outcome::Equal);
    }
    let text = format!("{}\n{}", answer.messages, refused.join("\n")).to_lowercase();
    ensure!(matches!(answer.end, End::Code(_)), "{}: {text}", answer.end);
    let reasons = ["no space", "is full", "storage space"];
    ensure!(reasons.iter().any(|reason| text.contains(reason)), "no reason: {text}");
    Ok(Outcome::Error)
}

/// A recorder whose disk fills up: the recording has each event up to a moment once, and a hole behind it.
pub(crate) fn check_recorder(scratch: &Path, mode: &[&str]) -> Result<()> {
    let name = format!("recorder-{}", mode.len());
    let Some(disk) = Tmpfs::mount(scratch.join(name), "8m")? else { return Ok(()) };
    let load = Counting::start(scratch, "0")?;
    let words = ["record", "-o", RECORDING, "--profile", "io", "--duration", "50s"];
    let output = command(&disk.0)?.args(words).args(mode).output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{}: {text}", output.status);
    ensure!(text.contains("the file system is full"), "{text}");
    // The tables have no room there.
    let dir = scratch.join("of-a-full-disk");
    fs::create_dir(&dir)?;
    copy_tree(&disk.0.join(RECORDING), &dir.join(RECORDING))?;
    let rows = Verb::Rows.run(&dir, &[])?;
    ensure!(rows.end == End::Code(0), "{}", rows.messages);
    let rows = rows.text("stdout");
    let doubled = Whole::new(&rows).compare(&rows, Names::AreKept);
    ensure!(doubled.contradictions.is_empty(), "{:?}", doubled.contradictions);
    let numbers = numbered_of(&rows, load.tid());
    ensure!(numbers.len() > 1000, "{} events of the load", numbers.len());
    ensure!(rows.contains("\"cause\":\"disk_full\""), "no hole");
    check_gaps(&rows, &numbers)?;
    fs::remove_dir_all(&dir)?;
    Ok(())
}

/// What is missing of the load's numbers.
pub(crate) struct Gaps {
    pub(crate) missing: i64,
    /// Holes without a count. The kernel has no room for it in a sub-buffer that is full to its last 8 bytes
    /// (kernel/trace/ring_buffer.c, `ring_buffer_read_page`).
    pub(crate) uncounted: usize,
}

/// Each gap in the load's numbers is within holes of its CPU, whose counts (where each has one) are enough for it.
pub(crate) fn check_gaps(rows: &str, numbers: &[(i64, i64)]) -> Result<Gaps> {
    let holes = rows.lines().filter(|line| line.starts_with("{\"table\":\"lost\""));
    let holes = holes.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let holes: Vec<Value> =
        holes.filter(|hole| hole["cpu"] == 0 || hole["cpu"].is_null()).collect();
    let mut gaps = Gaps { missing: 0, uncounted: 0 };
    for two in numbers.windows(2) {
        let ((begun, before), (until, after)) = (two[0], two[1]);
        ensure!(before < after, "{after} follows {before}: not each once, in order");
        let missing = after - before - 1;
        if missing == 0 {
            continue;
        }
        let here = holes.iter().filter(|hole| {
            let (ts, dur) = (hole["ts"].as_i64(), hole["dur"].as_i64());
            ts.zip(dur).is_some_and(|(ts, dur)| ts <= until && ts + dur >= begun)
        });
        let counts: Vec<Option<i64>> = here.map(|hole| hole["count"].as_i64()).collect();
        ensure!(!counts.is_empty(), "{missing} events behind {before} are missing, without a hole");
        if let Some(counts) = counts.iter().copied().collect::<Option<Vec<i64>>>() {
            let lost: i64 = counts.iter().sum();
            ensure!(missing <= lost, "{missing} events are missing, {lost} are counted as lost");
        }
        gaps.missing += missing;
        gaps.uncounted += counts.iter().filter(|count| count.is_none()).count();
    }
    Ok(gaps)
}

/// A daemon whose disk is full for a while: it goes on, states it, and writes again when there is space.
pub(crate) fn check_daemon(scratch: &Path) -> Result<()> {
    let Some(disk) = Tmpfs::mount(scratch.join("daemon"), "40m")? else { return Ok(()) };
    let start = || -> Result<Daemon> {
        let daemon = Daemon::start(&disk.0, RECORDING_SETTINGS)?;
        daemon.map_err(|end| anyhow::anyhow!("serve: {end}"))
    };
    let daemon = start()?;
    let state = |daemon: &Daemon| -> Option<String> {
        let (_, body) = ask(&daemon.address, "", "/api/v1/status", None).ok()?;
        let status: Value = serde_json::from_slice(&body).ok()?;
        Some(status["history"]["state"].as_str()?.to_owned())
    };
    wait_for("windows", || windows_of(&daemon, "100ms").is_ok_and(|w| w.len() > 15))?;
    disk.fill()?;
    wait_for("the state full", || state(&daemon).is_some_and(|state| state == "full"))?;
    let ready = ask(&daemon.address, "", "/readyz", None)?;
    ensure!(ready.0 == 200, "the windows do not go on");
    disk.free()?;
    wait_for("the state ok", || state(&daemon).is_some_and(|state| state == "ok"))?;
    let before = windows_of(&daemon, "100ms")?;
    ensure!(daemon.stop()? == End::Code(0), "no end within {DEADLINE:?}");
    let daemon = start()?;
    let after = windows_of(&daemon, "100ms")?;
    let missing: Vec<_> = before.iter().filter(|window| !after.contains(window)).collect();
    ensure!(missing.is_empty(), "had been answered before the end: {missing:?}");
    Ok(())
}
