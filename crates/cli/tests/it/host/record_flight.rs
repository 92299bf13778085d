//! The flight recorder of the full collector: nothing is written until it is asked for.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "tests report by failing")]

use crate::record_support::{Scratch, can_record, count, trace_cmd_count, wait_for};
use rustix::process::Signal;
use std::{fs, process::Command};
use transect_store::Recording;

#[test]
fn snapshots_are_recordings_numbered_and_only_made_when_asked_for() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start(&["record", "--full", "-o", "f.transect", "--flight-recorder=1M"]);
    let base = scratch.path("f.transect");
    let snapshot = || {
        let output = scratch.run(&["snapshot", base.to_str().unwrap()]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(fs::read_dir(scratch.path("")).unwrap().count(), 0, "nothing is written yet");
    for number in 1..=2 {
        let _ = Command::new("ls").output();
        let dir = scratch.path(&format!("f.{number}.transect"));
        assert_eq!(snapshot(), dir.to_str().unwrap());
        let recording = Recording::open(&dir).unwrap();
        assert!(recording.manifest.finished);
        let counted = count(&dir, "*");
        assert_eq!(recording.manifest.cost.unwrap().events, counted);
        assert!(count(&dir, "sched_switch") > 0);
        if let Some(theirs) = trace_cmd_count(&dir, "sched_switch") {
            assert_eq!(theirs, count(&dir, "sched_switch"));
        }
    }
    recorder.signal(Signal::USR2);
    let third = scratch.path("f.3.transect");
    wait_for("the snapshot SIGUSR2 asks for", || {
        Recording::open(&third).is_ok_and(|recording| recording.manifest.finished)
    });
    let output = scratch.run(&["stop", base.to_str().unwrap()]);
    assert!(output.status.success());
    let (code, said) = recorder.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(!base.exists());
}

#[test]
fn a_trigger_freezes_the_buffers_at_the_event_itself() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    // The newest program started when the buffers freeze is the one that fires.
    let recorder = scratch.start(&[
        "record",
        "-o",
        "t.transect",
        "-e",
        "sched:sched_process_exec",
        "-e",
        "sched:sched_switch",
        "--trigger",
        "sched:sched_process_exec if filename ~ \"*/trigger-me\"",
    ]);
    let program = scratch.path("trigger-me");
    fs::copy("/bin/true", &program).unwrap();
    for _ in 0..5 {
        let _ = Command::new("/bin/true").status();
    }
    assert!(!scratch.path("t.1.transect").exists());
    assert!(Command::new(&program).status().unwrap().success());
    // One snapshot, then it ends by itself.
    let (code, said) = recorder.wait();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("snapshot (trigger)"), "{said}");
    let dir = scratch.path("t.1.transect");
    assert!(count(&dir, "sched_process_exec") >= 6);
    let recording = Recording::open(&dir).unwrap();
    let trace = transect_tracedat::TraceDat::parse(&recording.sources[0].bytes).unwrap();
    // The event that fired is the last of its CPU but for what was being written.
    let mut execs_after = None;
    for cpu in trace.buffers()[0].cpus() {
        let Some(mut stream) = trace.stream(&trace.buffers()[0], cpu) else { continue };
        let mut since: Option<u32> = None;
        while let Some(item) = stream.next() {
            let transect_tracedat::Item::Event { payload, .. } = item else { continue };
            if let Some(since) = &mut since {
                *since += 1;
            }
            // The thread has the name before it is traced that it executes: it may be switched out in between.
            let event = trace.events().event_of(payload);
            let is_exec = event.is_some_and(|event| &*event.name == "sched_process_exec");
            if is_exec && payload.windows(10).any(|bytes| bytes == b"trigger-me") {
                since = since.or(Some(0));
            }
        }
        execs_after = execs_after.or(since);
    }
    assert_eq!(execs_after, Some(0), "nothing follows on the CPU that fired");
}

#[test]
fn a_command_that_fails_leaves_a_snapshot_and_one_that_succeeds_does_not() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let output = scratch.run(&["record", "--full", "-o", "ok", "--flight-recorder", "--", "true"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(!scratch.path("ok.1.transect").exists());
    let output =
        scratch.run(&["record", "--full", "-o", "bad", "--flight-recorder", "--", "false"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("command failed"), "{said}");
    assert!(count(&scratch.path("bad.1.transect"), "sched_switch") > 0);
}

#[test]
fn a_recorder_that_writes_all_the_time_takes_no_snapshots() {
    if !can_record() {
        return;
    }
    let scratch = Scratch::new();
    let recorder = scratch.start(&["record", "--full", "-o", "c.transect"]);
    let pid = recorder.pid().to_string();
    let output = scratch.run(&["snapshot", "--pid", &pid]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--flight-recorder"));
    let output = scratch.run(&["stop", "--pid", &pid]);
    assert!(output.status.success());
    assert_eq!(recorder.wait().0, Some(0));
}
