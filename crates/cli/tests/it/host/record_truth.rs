//! What was not recorded is unknown: snapshots of overwritten logs, and filtered recordings.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests report by failing")]

use crate::record_support::{Scratch, can_record, can_record_compact, pinned, wait_for};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};
use transect_store::Recording;

/// A child process, killed when the test ends.
struct Busy(Child);

impl Busy {
    /// A process that sleeps and wakes all the time, on one CPU.
    fn on_cpu(cpu: u32) -> Self {
        let script = "import time\nwhile True: time.sleep(0.00001)";
        let command = ["python3", "-c", script].map(str::to_owned);
        let command = pinned(cpu, &command);
        Busy(Command::new(&command[0]).args(&command[1..]).spawn().unwrap())
    }

    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The rows of a query.
fn rows(scratch: &Scratch, recording: &Path, query: &str) -> Vec<Value> {
    let output = scratch.run(&["sql", recording.to_str().unwrap(), query, "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
    rows.as_array().unwrap().clone()
}

/// The number that a query counts as `n`.
fn count(scratch: &Scratch, recording: &Path, query: &str) -> i64 {
    rows(scratch, recording, query)[0]["n"].as_i64().unwrap()
}

fn report(scratch: &Scratch, recording: &Path) -> String {
    let output = scratch.run(&["report", recording.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn overwritten_stretches_of_a_snapshot_are_unknown() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start_compact(&["record", "--flight-recorder=64K", "-o", "s.transect"]);
    // Threads that are gone long before the buffers of the busy CPU begin.
    for _ in 0..5 {
        assert!(Command::new("true").status().unwrap().success());
    }
    let _busy = Busy::on_cpu(0);
    let begun = Instant::now();
    wait_for("the log of CPU 0 to be overwritten", || begun.elapsed() > Duration::from_secs(2));
    let take = |words: &[&str]| {
        let pid = recorder.pid().to_string();
        let output = scratch.run(&[&["snapshot", "--pid", &pid], words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        scratch.path(String::from_utf8_lossy(&output.stdout).trim())
    };

    // By default, the window is what all CPUs cover.
    let covered = take(&[]);
    assert_eq!(count(&scratch, &covered, "SELECT count(*) AS n FROM lost"), 0);
    let text = report(&scratch, &covered);
    assert!(text.contains("No events were lost") && !text.contains("reach back"), "{text}");

    // A longer window is unknown where the logs were overwritten, on each CPU by itself.
    let all = take(&["--last", "all"]);
    let manifest = Recording::open(&all).unwrap().manifest;
    let snapshot = manifest.snapshot.unwrap();
    let begins = rows(&scratch, &all, "SELECT min(ts) AS n FROM cpu_slices")[0]["n"].as_i64();
    assert_eq!(begins.map(i64::cast_unsigned), snapshot.from, "trace time is the host's mono");
    let lost = "SELECT count(*) AS n FROM lost WHERE cause = 'overwritten'";
    assert!(count(&scratch, &all, &format!("{lost} AND cpu = 0")) == 1);
    let known_slices = "SELECT count(*) AS n FROM cpu_slices AS s JOIN lost AS l ON s.cpu = l.cpu \
        WHERE l.cause = 'overwritten' AND s.tid IS NOT NULL AND s.ts < l.ts + l.dur";
    assert_eq!(count(&scratch, &all, known_slices), 0);
    let known_waits = "SELECT count(*) AS n FROM thread_states WHERE state IN ('runnable', 'blocked') \
        AND ts < (SELECT max(ts + dur) FROM lost WHERE cause = 'overwritten')";
    assert_eq!(count(&scratch, &all, known_waits), 0);
    let text = report(&scratch, &all);
    assert!(text.contains("reach back") && !text.contains("No events were lost"), "{text}");
    let (code, said) = {
        recorder.signal(rustix::process::Signal::INT);
        recorder.wait()
    };
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_filter_leaves_other_threads_unknown() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let (wanted, _other) = (Busy::on_cpu(0), Busy::on_cpu(0));
    let tid = wanted.id();
    let filter = format!("pid={tid}");
    let output = scratch.run(&["record", "-o", "f", "--filter", &filter, "--duration", "500ms"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let dir = scratch.path("f");
    assert_eq!(Recording::open(&dir).unwrap().manifest.filter.unwrap().text, filter);
    for state in ["running", "blocked"] {
        let mine = format!(
            "SELECT count(*) AS n FROM thread_states WHERE tid = {tid} AND state = '{state}'"
        );
        assert!(count(&scratch, &dir, &mine) > 10, "{state}");
    }
    let others = format!(
        "SELECT count(*) AS n FROM thread_states WHERE tid <> {tid} AND state <> 'unknown'"
    );
    assert_eq!(count(&scratch, &dir, &others), 0);
    let slices =
        format!("SELECT count(*) AS n FROM cpu_slices WHERE tid IS NOT NULL AND tid <> {tid}");
    assert_eq!(count(&scratch, &dir, &slices), 0);
    let log = format!("SELECT count(*) AS n FROM import_log WHERE message LIKE '%{filter}%'");
    assert_eq!(count(&scratch, &dir, &log), 1);
    let text = report(&scratch, &dir);
    assert!(text.contains(&format!("Recorded with the filter {filter}")), "{text}");
    assert!(text.contains("whose states are unknown"), "{text}");
}

/// The page of the ring buffer that is being read keeps events from before the ones that were overwritten.
#[test]
fn snapshots_of_the_full_collector_have_the_window_that_all_cpus_cover() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let words =
        ["record", "--full", "--profile", "sched", "--flight-recorder=64K", "-o", "s.transect"];
    let recorder = scratch.start(&words);
    let _busy = Busy::on_cpu(0);
    for _ in 0..2 {
        let begun = Instant::now();
        wait_for("the buffer of CPU 0 to be overwritten", || {
            begun.elapsed() > Duration::from_secs(1)
        });
        let output = scratch.run(&["snapshot", "--pid", &recorder.pid().to_string()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let dir = scratch.path(String::from_utf8_lossy(&output.stdout).trim());
        assert_eq!(count(&scratch, &dir, "SELECT count(*) AS n FROM lost"), 0);
        assert!(count(&scratch, &dir, "SELECT count(*) AS n FROM cpu_slices WHERE cpu = 0") > 10);
    }
    recorder.signal(rustix::process::Signal::INT);
    assert_eq!(recorder.wait().0, Some(0));
}

/// The unified hierarchy, if groups can be made in it.
fn new_group() -> Option<PathBuf> {
    let mounts = procfs::mounts().unwrap();
    let root = mounts.into_iter().find(|mount| mount.fs_vfstype == "cgroup2")?.fs_file;
    let group = Path::new(&root).join(format!("transect-test-{}", std::process::id()));
    fs::create_dir(&group).ok().map(|()| group)
}

/// A process that enters the group while it is recorded, and one that was in it and leaves.
#[test]
fn threads_that_change_their_group_are_unknown_with_a_filter_by_group() {
    if !can_record_compact() {
        return;
    }
    let Some(group) = new_group() else {
        eprintln!("skipped: no control group can be made here");
        return;
    };
    let procs = group.join("cgroup.procs");
    let scratch = Scratch::new();
    let [stays, leaves, enters] = [Busy::on_cpu(0), Busy::on_cpu(0), Busy::on_cpu(0)];
    for busy in [&stays, &leaves] {
        fs::write(&procs, busy.id().to_string()).unwrap();
    }
    let filter = format!("cgroup=/{}", group.file_name().unwrap().to_string_lossy());
    let recorder = scratch.start_compact(&["record", "-o", "g", "--filter", &filter]);
    std::thread::sleep(Duration::from_millis(200));
    fs::write(&procs, enters.id().to_string()).unwrap();
    fs::write(group.parent().unwrap().join("cgroup.procs"), leaves.id().to_string()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    recorder.signal(rustix::process::Signal::INT);
    let (code, said) = recorder.wait();
    assert_eq!(code, Some(0), "{said}");
    let dir = scratch.path("g");
    let known = |busy: &Busy| {
        let tid = busy.id();
        let query = format!(
            "SELECT count(*) AS n FROM thread_states WHERE tid = {tid} AND state <> 'unknown'"
        );
        count(&scratch, &dir, &query)
    };
    assert!(known(&stays) > 10);
    assert_eq!((known(&leaves), known(&enters)), (0, 0));
    drop([stays, leaves, enters]);
    wait_for("the group to be empty", || fs::remove_dir(&group).is_ok());
}
