//! Endings that are reported as they were: a full disk, a directory that is gone, a recorder that was killed.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests report by failing")]

use crate::record_support::{
    Recorder, Scratch, Tiny, can_record, can_record_compact, instances, wait_for,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread,
    time::Duration,
};
use transect_store::Manifest;

/// The two collectors, as arguments of `record`.
const MODES: [&[&str]; 2] = [&["--full"], &[]];
/// Recorders that are killed in each mode.
const KILLS: u64 = 50;
/// The last moment at which one is killed, ms: most have recorded for a while then.
const LATEST_KILL_MS: u64 = 700;
/// System calls as fast as one thread can make them.
const FLOOD: &str = "import os\nwhile True: os.getppid()";

/// Some ten thousand events per second on one CPU, so that every recorder has whole sub-buffers to write.
const STEADY_LOAD: &str =
    "import os, time\nwhile True:\n for _ in range(20): os.getppid()\n time.sleep(0.001)";

/// The load on one CPU, until it is dropped.
struct Load(Child);

impl Load {
    fn start(cpu: u32) -> Self {
        let words = ["-c", &cpu.to_string(), "python3", "-c", STEADY_LOAD];
        Load(Command::new("taskset").args(words).spawn().unwrap())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn path(dir: &Path) -> &str {
    dir.to_str().unwrap()
}

/// All rows of a recording.
fn rows_of(scratch: &Scratch, dir: &Path) -> Vec<Value> {
    let output = scratch.run(&["export", path(dir), "--to", "jsonl", "-o", "-"]);
    assert!(output.status.success(), "{}", stderr_of(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn of_table<'a>(rows: &'a [Value], table: &'a str) -> impl Iterator<Item = &'a Value> {
    rows.iter().filter(move |row| row["table"] == table)
}

fn span(row: &Value) -> (i64, i64) {
    let start = row["ts"].as_i64().unwrap();
    (start, start + row["dur"].as_i64().unwrap())
}

/// Checks that each CPU ends with a hole of this cause, in which its slices are unknown; returns the holes' CPUs and counts.
fn check_ends(rows: &[Value], cause: &str) -> Vec<(u64, Option<u64>)> {
    let holes: Vec<&Value> = of_table(rows, "lost").filter(|row| row["cause"] == cause).collect();
    let end = of_table(rows, "cpu_slices").chain(holes.iter().copied()).map(|row| span(row).1);
    let end = end.max().unwrap();
    for hole in &holes {
        let (from, until) = span(hole);
        assert_eq!(until, end, "nothing is known of a CPU behind its last event: {hole}");
        let of_cpu = of_table(rows, "cpu_slices").filter(|row| row["cpu"] == hole["cpu"]);
        let (unknown, known): (Vec<_>, Vec<_>) = of_cpu.partition(|row| row["tid"].is_null());
        let last = known.iter().map(|row| span(row).1).max();
        assert!(last.is_none_or(|last| last <= from), "{last:?} lies in {hole}");
        // The unknown slices reach the end, too.
        let covered = unknown.iter().map(|row| span(row).1).max();
        assert!(covered == Some(end) || from == until, "{covered:?}, {hole}");
    }
    let of_cpu = |hole: &&Value| (hole["cpu"].as_u64().unwrap(), hole["count"].as_u64());
    let mut ends: Vec<_> = holes.iter().map(of_cpu).collect();
    ends.sort_unstable();
    ends
}

fn cpus_online() -> u64 {
    transect_tracefs::cpus::online().unwrap().len() as u64
}

#[test]
fn a_full_disk_is_the_ending_and_what_was_not_kept_is_counted_and_unknown() {
    if !can_record() || !can_record_compact() {
        return;
    }
    for mode in MODES {
        let scratch = Scratch::new();
        let Some(tiny) = Tiny::mount(scratch.path("tiny"), "4m") else { return };
        let dir = tiny.path().join("full.transect");
        let words = [
            &["record"],
            mode,
            &["-o", path(&dir), "--profile", "io", "--duration", "60s", "--kill", "--"],
            &["python3", "-c", FLOOD],
        ];
        let output = scratch.run(&words.concat());
        let text = stderr_of(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        for said in ["recording ended early: the file system is full", " not kept", "Not kept: "] {
            assert!(text.contains(said), "{said}: {text}");
        }
        let manifest = Manifest::read(&dir).unwrap();
        assert!(manifest.finished, "the manifest found room: {text}");
        assert_eq!(manifest.ended_by.as_deref(), Some("disk_full"));
        assert!(!manifest.not_kept.is_empty(), "{text}");
        // On another disk: this one has no room for tables.
        let rows = rows_of(&scratch, &dir);
        let holes = check_ends(&rows, "disk_full");
        let of_manifest = manifest.not_kept.iter();
        let of_manifest: Vec<_> =
            of_manifest.map(|entry| (u64::from(entry.cpu.0), entry.count)).collect();
        assert_eq!(holes, of_manifest, "the table equals the manifest");
        let not_kept: u64 = holes.iter().filter_map(|(_, count)| *count).sum();
        assert!(not_kept > 1000, "{holes:?}");
        let report = scratch.run(&["report", path(&dir), "--json"]);
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        let recording = &report["recording"];
        assert_eq!(recording["ended_by"], "disk_full", "{recording}");
        assert_eq!(recording["not_kept"], not_kept);
        let report = scratch.run(&["report", path(&dir), "--view", "recording"]);
        let page = String::from_utf8_lossy(&report.stdout).into_owned();
        let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(page.contains("ended early: the file system was full; not kept"), "{page}");
        let doctor = scratch.run(&["doctor", path(&dir)]);
        assert_eq!(doctor.status.code(), Some(1));
        let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
        assert!(doctor.contains("the file system was full"), "{doctor}");
    }
}

#[test]
fn a_failure_is_reported_before_the_command_ends() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let Some(tiny) = Tiny::mount(scratch.path("tiny"), "4m") else { return };
    let dir = tiny.path().join("full.transect");
    let for_a_while =
        "import os, time\nend = time.time() + 4\nwhile time.time() < end: os.getppid()";
    let words = ["record", "-o", path(&dir), "--profile", "io", "--", "python3", "-c", for_a_while];
    let output = scratch.run(&words);
    let text = stderr_of(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let failure = text.find("recording ended early: the file system is full");
    let wait = text.find("waiting for python3");
    assert!(failure.is_some() && failure < wait, "{text}");
}

#[test]
fn a_disk_without_room_is_refused_before_anything_is_recorded() {
    if !can_record() || !can_record_compact() {
        return;
    }
    for mode in MODES {
        let scratch = Scratch::new();
        let Some(tiny) = Tiny::mount(scratch.path("tiny"), "1m") else { return };
        let dir = tiny.path().join("no.transect");
        let marker = scratch.path("ran");
        let words = [&["record"], mode, &["-o", path(&dir), "--", "touch", path(&marker)]].concat();
        let output = scratch.run(&words);
        let text = stderr_of(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("nothing was recorded: the file system has"), "{text}");
        assert!(!dir.exists() && !marker.exists(), "neither recording nor command: {text}");
    }
}

#[test]
fn a_directory_that_was_removed_or_moved_is_reported() {
    if !can_record() || !can_record_compact() {
        return;
    }
    for mode in MODES {
        let scratch = Scratch::new();
        let (dir, other) = (scratch.path("r.transect"), scratch.path("moved.transect"));
        let words = [&["record"], mode, &["-o", path(&dir), "--duration", "60s"]].concat();
        let recorder = start(&scratch, &words);
        fs::remove_dir_all(&dir).unwrap();
        let (code, text) = recorder.wait();
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("removed while it was recorded"), "{text}");
        assert!(!dir.exists(), "nothing is made again in its place");
        let recorder = start(&scratch, &words);
        // Some of it must be on disk.
        wait_for("events on disk", || bytes_in(&dir) > 100_000);
        fs::rename(&dir, &other).unwrap();
        let (code, text) = recorder.wait();
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains(&format!("moved to {}", path(&other))), "{text}");
        assert!(!dir.exists());
        check_ends(&rows_of(&scratch, &other), "not_written");
    }
}

fn start(scratch: &Scratch, words: &[&str]) -> Recorder {
    match words.contains(&"--full") {
        true => scratch.start(words),
        false => scratch.start_compact(words),
    }
}

fn bytes_in(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|facts| facts.len()).sum()
}

/// Whatever was reached when the recorder is killed, the recording is read with its ends unknown, or the refusal has the
/// reason; nothing goes on tracing.
#[test]
fn kills_at_any_moment_leave_a_recording_or_a_reason_and_no_instance() {
    if !can_record() || !can_record_compact() {
        return;
    }
    let _load = [Load::start(0), Load::start(1)];
    let seed = std::process::id();
    println!("seed {seed}");
    let mut random = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut whole = [0; 2];
    for kill in 0..2 * KILLS {
        let at = usize::from(kill % 2 == 1);
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let after = Duration::from_millis(random % LATEST_KILL_MS);
        let scratch = Scratch::new();
        let dir = scratch.path("k.transect");
        let words = [&["record"], MODES[at], &["-o", path(&dir), "--profile", "io"]].concat();
        let child = scratch.transect(&words).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let recorder = Recorder { child: child.unwrap() };
        thread::sleep(after);
        recorder.signal(Signal::KILL);
        let pid = recorder.pid();
        let _ = recorder.wait();
        let context = format!("mode {at}, killed after {after:?}");
        let report = scratch.run(&["report", path(&dir)]);
        let text = stderr_of(&report);
        match report.status.code() {
            Some(0) => {
                let page = String::from_utf8_lossy(&report.stdout);
                assert!(page.contains("recorder did not finish"), "{context}: {page}");
                let holes = check_ends(&rows_of(&scratch, &dir), "not_written");
                assert_eq!(holes.len() as u64, cpus_online(), "{context}: {holes:?}");
                whole[at] += 1;
            }
            Some(1) => {
                let reasons = ["no such recording", "not a recording", "Record again", "cut off"];
                assert!(reasons.iter().any(|why| text.contains(why)), "{context}: {text}");
            }
            other => panic!("{context}: {other:?}: {text}"),
        }
        assert_eq!(instances(&format!("transect-{pid}-")), Vec::<std::path::PathBuf>::new());
        let state = |suffix: &str| Path::new(&format!("/run/transect/{pid}.{suffix}")).exists();
        assert!(!state("json") && !state("sock"), "{context}: {text}");
    }
    println!("read as recordings: {whole:?} of {KILLS} in each mode");
    assert!(whole.iter().all(|count| *count > 5), "{whole:?}");
}

#[test]
fn any_verb_removes_and_reports_the_leftovers_of_a_killed_recorder() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start(&["record", "--full", "-o", "k.transect"]);
    let (pid, instance) = (recorder.pid(), recorder.instance().unwrap());
    let name = instance.file_name().unwrap().to_string_lossy().into_owned();
    // One that lives is left alone, and doctor names it.
    let doctor = scratch.run(&["doctor"]);
    let page = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(page.contains(&format!("pid {pid} records")), "{page}");
    assert!(instance.exists());
    recorder.signal(Signal::KILL);
    let _ = recorder.wait();
    let tracing_on = fs::read_to_string(instance.join("tracing_on")).unwrap();
    assert_eq!(tracing_on.trim(), "1", "a killed recorder cannot switch it off");
    let output = scratch.run(&["import", "/nowhere.dat", "-o", "x"]);
    let text = stderr_of(&output);
    assert!(text.contains(&format!("removed the tracing instance {name}")), "{text}");
    assert!(text.contains(&format!("the recorder with pid {pid} was killed")), "{text}");
    assert!(!instance.exists());
    // Another program's instance is left alone, and doctor names it.
    let other = transect_tracefs::Tracefs::find().unwrap().path("instances/of-another-program");
    fs::create_dir(&other).unwrap();
    let doctor = scratch.run(&["doctor"]);
    let still_there = fs::remove_dir(&other).is_ok();
    let page = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(page.contains("of-another-program (tracing)") && still_there, "{page}");
}

#[test]
fn the_duration_ends_the_recording_and_not_the_command() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let command = ["sh", "-c", "sleep 1.5; touch ran; exit 7"];
    let words = ["record", "-o", "r.transect", "--duration", "200ms", "--"];
    let output = scratch.run(&[&words[..], &command].concat());
    let text = stderr_of(&output);
    assert_eq!(output.status.code(), Some(7), "the command's own: {text}");
    assert!(scratch.path("ran").exists() && text.contains("waiting for sh"), "{text}");
    let manifest = Manifest::read(&scratch.path("r.transect")).unwrap();
    assert_eq!(manifest.ended_by.as_deref(), Some("duration elapsed"));
    assert!(manifest.cost.unwrap().wall_ns < 1_400_000_000, "it ended before the command");
    let words =
        ["record", "-o", "k.transect", "--duration", "200ms", "--kill", "--", "sleep", "60"];
    let output = scratch.run(&words);
    assert_eq!(output.status.code(), Some(143), "{}", stderr_of(&output));
}

#[test]
fn a_missing_command_is_127_and_leaves_no_recording() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    fs::write(scratch.path("no-program"), "text").unwrap();
    let interpreter = scratch.path("no-interpreter");
    fs::write(&interpreter, "#!/nowhere/sh\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&interpreter, mode).unwrap();
    for (command, code) in
        [("no-such-program", 127), ("./no-program", 126), (path(&interpreter), 127)]
    {
        for mode in MODES {
            let words = [&["record"], mode, &["-o", "c.transect", "--", command]].concat();
            let output = scratch.run(&words);
            let text = stderr_of(&output);
            assert_eq!(output.status.code(), Some(code), "{command}: {text}");
            assert!(text.contains("cannot start the command"), "{text}");
            assert!(!scratch.path("c.transect").exists(), "{command} left a recording");
        }
    }
}

#[test]
fn the_own_cost_is_at_most_all_cpus_however_early_the_end() {
    if !can_record() || !can_record_compact() {
        return;
    }
    for mode in MODES {
        for delay_ms in [0, 50, 150, 400] {
            let scratch = Scratch::new();
            let words = [&["record"], mode, &["-o", "c.transect"]].concat();
            let child = scratch.transect(&words).stderr(Stdio::piped()).spawn().unwrap();
            let recorder = Recorder { child };
            thread::sleep(Duration::from_millis(delay_ms));
            recorder.signal(Signal::TERM);
            let (_, text) = recorder.wait();
            let Ok(manifest) = Manifest::read(&scratch.path("c.transect")) else { continue };
            let cost = manifest.cost.expect("it ended in order");
            // The clock of CPU time of a process can be ahead by one tick of each CPU.
            let most = (cost.wall_ns + 10_000_000) * cpus_online();
            assert!(cost.traced_cpu_ns <= most, "{cost:?}: {text}");
        }
    }
}
