//! A program that records without the command line. Without root, or a kernel for a collector, each test says so and
//! passes.
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a failed expectation is the report")]

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};
use transect_recorder::{FlightPlan, FlightService, Recorder, SnapshotWindow};
use transect_store::{Manifest, manifest::SourceFormat};
use transect_tracefs::{Profile, Tracefs};

/// Can this machine record with the compact collector? If not, prints why the test is skipped.
fn can_record() -> bool {
    match transect_bpf::can_run() {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

/// Is there a tracefs to record with? If not, prints why the test is skipped.
fn has_tracefs() -> bool {
    match Tracefs::find() {
        Ok(_) => true,
        Err(why) => {
            eprintln!("skipped: {why}");
            false
        }
    }
}

/// Switches threads: the events that are recorded.
fn work() {
    assert!(Command::new("true").status().unwrap().success());
}

/// The complete recording's manifest, whose only source has this format.
fn read(dir: &Path, format: SourceFormat) -> Manifest {
    let manifest = Manifest::read(dir).unwrap();
    assert!(manifest.finished);
    let formats: Vec<_> = manifest.sources.iter().map(|source| source.format).collect();
    assert_eq!(formats, [format]);
    assert!(dir.join(&manifest.sources[0].file).metadata().unwrap().len() > 0);
    manifest
}

#[test]
fn both_collectors_record_between_start_and_stop() {
    let scratch = tempfile::tempdir().unwrap();
    let mut kinds = Vec::new();
    if can_record() {
        kinds.push((false, SourceFormat::Compact));
    }
    if has_tracefs() {
        kinds.push((true, SourceFormat::TraceDat));
    }
    for (is_full, format) in kinds {
        let dir = scratch.path().join(format!("{is_full}.transect"));
        let recorder = Recorder::new(&dir).profile(Profile::Sched).buffer_kb(256);
        let recorder = if is_full { recorder.full() } else { recorder };
        let running = recorder.command_line(vec!["a program".to_owned()]).start().unwrap();
        work();
        let outcome = running.stop().unwrap();
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        assert_eq!(outcome.problems, [] as [String; 0]);
        assert_eq!(outcome.dir, dir);
        let manifest = read(&dir, format);
        assert_eq!(manifest.command_line, ["a program"]);
        let cost = manifest.cost.unwrap();
        assert!(outcome.numbers.events > 0 && outcome.numbers.events == cost.events);
    }
}

#[test]
fn each_snapshot_of_a_flight_recorder_is_a_recording() {
    if !can_record() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let base = scratch.path().join("slow.transect");
    let plan = FlightPlan { snapshots: Some(2), ..FlightPlan::default() };
    let recorder = Recorder::new(&base).profile(Profile::Sched).buffer_kb(256);
    let running = recorder.flight_recorder(plan).start().unwrap();
    work();
    let first = running.snapshot(None).unwrap();
    work();
    let second = running.snapshot(Some(SnapshotWindow::Last(Duration::from_millis(1)))).unwrap();
    assert_eq!(first, scratch.path().join("slow.1.transect"));
    assert_eq!(second, scratch.path().join("slow.2.transect"));
    let events = [&first, &second].map(|dir| {
        let manifest = read(dir, SourceFormat::Compact);
        assert_eq!(manifest.ended_by.as_deref(), Some("snapshot: requested"));
        manifest.cost.unwrap().events
    });
    assert!(events[0] > 0);
    // That was its last one.
    while !running.is_over() {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(running.snapshot(None).is_err());
    let outcome = running.stop().unwrap();
    assert_eq!((outcome.dir, outcome.ended_by.as_str()), (second, "snapshot limit reached"));
    assert_eq!(outcome.numbers.events, events.iter().sum::<u64>());
}

#[test]
fn the_flight_recorder_of_a_daemon_is_asked_again_and_again() {
    if !can_record() {
        return;
    }
    let scratch = tempfile::tempdir().unwrap();
    let words = vec!["a daemon".to_owned()];
    assert!(FlightService::start("everything", 1 << 20, words.clone()).is_err());
    let before = Instant::now();
    let mut service = FlightService::start("sched", 1 << 20, words).unwrap();
    for name in ["a.transect", "b.transect"] {
        work();
        let dir = scratch.path().join(name);
        let taken = service.snapshot(&dir, Duration::from_secs(60), "a test").unwrap();
        let manifest = read(&dir, SourceFormat::Compact);
        assert_eq!(manifest.command_line, ["a daemon"]);
        assert_eq!(manifest.snapshot.unwrap().reason, "a test");
        assert!(taken.events > 0 && taken.events == manifest.cost.unwrap().events);
    }
    assert!(service.reaches_back() <= before.elapsed());
}
