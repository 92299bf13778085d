//! The modes of recordings by both collectors, while they are made and afterwards.

use crate::access::{assert_modes, modes};
use crate::record_support::{Scratch, can_record, can_record_compact, wait_for};
use rustix::fs::Mode;
use rustix::process::{Signal, umask};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;
use std::{collections::BTreeSet, fs};

#[test]
fn recordings_are_private_with_any_umask() {
    if !can_record() || !can_record_compact() {
        return;
    }
    for (mask, collector) in [(0, "--full"), (0o022, "--clock=mono"), (0o777, "--full")] {
        umask(Mode::from_raw_mode(0o022));
        let scratch = Scratch::new();
        umask(Mode::from_raw_mode(mask));
        let is_full = collector == "--full";
        let words = ["record", collector, "-o", "r.transect"];
        let recorder = if is_full { scratch.start(&words) } else { scratch.start_compact(&words) };
        let dir = scratch.path("r.transect");
        let source = if is_full { "host.meta" } else { "host.compact" };
        wait_for("the recording's source", || dir.join(source).exists());
        // A file that is renamed while the directory is read is missing: the modes of those that are there count.
        let (mut dirs, mut files) = (BTreeSet::new(), BTreeSet::new());
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            let Ok(facts) = entry.metadata() else { continue };
            let kind = if facts.is_dir() { &mut dirs } else { &mut files };
            kind.insert(facts.mode() & 0o7777);
        }
        assert_eq!(files, BTreeSet::from([0o600]), "{collector} with umask {mask:o}, in decimal");
        assert!(dirs.iter().all(|mode| *mode == 0o700), "{dirs:?}");
        recorder.signal(Signal::INT);
        let (code, said) = recorder.wait();
        assert_eq!(code, Some(0), "{said}");
        assert!(assert_modes(&dir, 0o700, 0o600) > 2);
    }
    umask(Mode::from_raw_mode(0o022));
}

#[test]
fn snapshots_of_a_flight_recorder_are_for_the_group() {
    if !can_record_compact() {
        return;
    }
    umask(Mode::empty());
    let scratch = Scratch::new();
    let words = ["record", "-o", "f.transect", "--flight-recorder=1M", "--group", "54321"];
    let recorder = scratch.start_compact(&words);
    let output = scratch.run(&["snapshot", scratch.path("f.transect").to_str().unwrap()]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    recorder.signal(Signal::INT);
    recorder.wait();
    let dir = scratch.path("f.1.transect");
    assert!(assert_modes(&dir, 0o750, 0o640) > 2);
    // Tables that root makes in a recording of a user are the user's.
    chown(&dir, Some(54_322), None).unwrap();
    let words = ["export", dir.to_str().unwrap(), "--to", "jsonl", "--from", "+0s", "-o", "-"];
    assert!(scratch.run(&words).status.success());
    let tables = dir.join("tables");
    assert_eq!(modes(&tables).0, BTreeSet::from([0o750]));
    let facts = fs::metadata(tables.join("stamp.json")).unwrap();
    assert_eq!((facts.uid(), facts.gid(), facts.mode() & 0o7777), (54_322, 54_321, 0o640));
}

#[test]
fn directory_of_another_user_is_refused() {
    let scratch = Scratch::new();
    let dir = scratch.path("r.transect");
    fs::create_dir(&dir).unwrap();
    chown(&dir, Some(54_322), None).unwrap();
    let output = scratch.run(&["record", "-o", dir.to_str().unwrap(), "--", "true"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("it belongs to user 54322"), "{text}");
    assert_eq!(fs::read_dir(Path::new(&dir)).unwrap().count(), 0);
}
