//! However a recording of the full collector ends, what was recorded can be read.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests report by failing")]

use crate::record_support::{DEADLINE, Scratch, can_record, count, wait_for};
use rustix::process::Signal;
use std::{fs, path::PathBuf, process::Command, time::Instant};
use transect_store::Recording;

#[test]
fn a_signal_ends_it_in_order() {
    if !can_record() {
        return;
    }
    for (signal, name) in [(Signal::INT, "SIGINT"), (Signal::TERM, "SIGTERM")] {
        let scratch = Scratch::new();
        let recorder = scratch.start(&["record", "--full", "-o", "r.transect"]);
        std::thread::sleep(std::time::Duration::from_millis(100));
        recorder.signal(signal);
        let (code, said) = recorder.wait();
        assert_eq!(code, Some(0), "{said}");
        let recording = Recording::open(&scratch.path("r.transect")).unwrap();
        assert!(recording.manifest.finished && recording.problems.is_empty());
        assert!(recording.manifest.ended_by.unwrap().contains(name));
        assert!(count(&scratch.path("r.transect"), "sched_switch") > 0);
    }
}

#[test]
fn stop_waits_until_the_recording_is_complete_and_prints_it() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start(&["record", "--full", "-o", "r.transect"]);
    let dir = scratch.path("r.transect");
    let output = scratch.run(&["stop", dir.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), dir.to_str().unwrap());
    assert!(Recording::open(&dir).unwrap().manifest.finished);
    let (code, _) = recorder.wait();
    assert_eq!(code, Some(0));
    let output = scratch.run(&["stop", dir.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no recording is running"));
}

#[test]
fn after_a_kill_the_recording_is_read_and_the_instance_is_cleaned() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start(&["record", "--full", "-o", "k.transect", "--profile", "io"]);
    let dir = scratch.path("k.transect");
    // Some whole sub-buffers must be on disk, or there is nothing to recover.
    let spooled = || fs::metadata(dir.join("host.cpu0.raw")).map_or(0, |meta| meta.len());
    let start = Instant::now();
    while spooled() < 64 << 10 && start.elapsed() < DEADLINE {
        let _ = Command::new("ls").arg("/usr/bin").output();
    }
    let leftover = recorder.instance().unwrap();
    recorder.signal(Signal::KILL);
    let _ = recorder.wait();
    assert!(leftover.exists(), "a killed recorder cannot clean up");
    let recording = Recording::open(&dir).unwrap();
    assert!(recording.is_recovered());
    assert!(count(&dir, "sys_enter") > 100);
    drop(recording);
    let output = scratch.run(&["report", dir.to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = scratch.run(&["record", "--full", "-o", "next.transect", "--duration", "100ms"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let name = leftover.file_name().unwrap().to_string_lossy().into_owned();
    // Another test's recorder may have been faster: then it said so.
    assert!(said.contains(&name) || !leftover.exists(), "{said}");
    assert!(!leftover.exists());
}

/// Puts a CPU back online however the test ends.
struct Offline(PathBuf);

impl Offline {
    fn take(cpu: u32) -> Option<Self> {
        let path = PathBuf::from(format!("/sys/devices/system/cpu/cpu{cpu}/online"));
        match fs::write(&path, "0") {
            Ok(()) => Some(Offline(path)),
            Err(why) => {
                eprintln!("skipped: CPU {cpu} cannot be taken offline: {why}");
                None
            }
        }
    }
}

impl Drop for Offline {
    fn drop(&mut self) {
        let _ = fs::write(&self.0, "1");
    }
}

#[test]
fn a_cpu_that_comes_online_is_recorded_too() {
    if !can_record() {
        return;
    }
    let Some(offline) = Offline::take(1) else { return };
    let scratch = Scratch::new();
    let recorder = scratch.start(&["record", "--full", "-o", "h.transect"]);
    drop(offline);
    let on_cpu1 = || {
        let stats = recorder.instance().unwrap().join("per_cpu/cpu1/stats");
        fs::read_to_string(stats).is_ok_and(|text| !text.starts_with("entries: 0\n"))
    };
    wait_for("events on CPU 1", || {
        let _ = Command::new("taskset").args(["-c", "1", "true"]).status();
        on_cpu1()
    });
    // Whether or not the recorder has looked for new CPUs meanwhile.
    recorder.signal(Signal::INT);
    let (code, said) = recorder.wait();
    assert_eq!(code, Some(0), "{said}");
    let recording = Recording::open(&scratch.path("h.transect")).unwrap();
    let trace = transect_tracedat::TraceDat::parse(&recording.sources[0].bytes).unwrap();
    let mut stream = trace.stream(&trace.buffers()[0], 1).unwrap();
    assert!(stream.next().is_some(), "CPU 1 has events");
}
