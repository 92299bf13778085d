//! The modes of recordings, and of what is made from them later.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use crate::view_support::{Served, pair, testdata, transect};
use rustix::fs::Mode;
use rustix::process::{getegid, umask};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

/// The modes of all directories and of all files below `path`, and how many files there are.
pub(crate) fn modes(path: &Path) -> (BTreeSet<u32>, BTreeSet<u32>, usize) {
    let (mut dirs, mut files, mut count) = (BTreeSet::new(), BTreeSet::new(), 0);
    let mut left = vec![path.to_owned()];
    while let Some(path) = left.pop() {
        let facts = fs::symlink_metadata(&path).unwrap();
        if facts.is_dir() {
            dirs.insert(facts.mode() & 0o7777);
            left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            files.insert(facts.mode() & 0o7777);
            count += 1;
        }
    }
    (dirs, files, count)
}

/// Checks the modes of a recording's entries. Returns the number of its files.
pub(crate) fn assert_modes(path: &Path, dir: u32, file: u32) -> usize {
    let (dirs, files, count) = modes(path);
    let expected = (BTreeSet::from([dir]), BTreeSet::from([file]));
    assert_eq!((dirs, files), expected, "{}, in decimal", path.display());
    count
}

fn run(dir: &Path, words: &[&str]) {
    let output = transect(dir, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn imported_recording_its_tables_tiles_and_excerpts_are_private_with_any_umask() {
    for mask in [0, 0o022, 0o277] {
        let scratch = tempfile::tempdir().unwrap();
        umask(Mode::from_raw_mode(mask));
        let recording = pair(scratch.path());
        let imported = assert_modes(Path::new(&recording), 0o700, 0o600);
        run(scratch.path(), &["report", &recording]);
        Served::start(scratch.path(), &[&recording]).ready();
        let with_tables = assert_modes(Path::new(&recording), 0o700, 0o600);
        assert!(Path::new(&recording).join("tables").is_dir() && with_tables > imported);
        assert!(Path::new(&recording).join("view").is_dir());
        let small = scratch.path().join("small.transect");
        let words = ["export", &recording, "--to", "recording", "-o", small.to_str().unwrap()];
        run(scratch.path(), &words);
        assert!(assert_modes(&small, 0o700, 0o600) > 2);
        umask(Mode::from_raw_mode(0o022));
    }
}

#[test]
fn tables_in_the_cache_are_private() {
    umask(Mode::empty());
    let scratch = tempfile::tempdir().unwrap();
    let file = testdata("tracedat/v7-zstd.dat");
    let excerpt = scratch.path().join("x.transect");
    run(scratch.path(), &["export", &file, "--to", "recording", "-o", excerpt.to_str().unwrap()]);
    let tables = scratch.path().join("transect/tables");
    let cached: Vec<_> = fs::read_dir(tables).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(cached.len(), 1);
    assert!(assert_modes(&cached[0], 0o700, 0o600) > 2);
}

#[test]
fn group_can_read_the_recording_and_tables_that_are_made_later() {
    umask(Mode::from_raw_mode(0o077));
    let scratch = tempfile::tempdir().unwrap();
    let recording = scratch.path().join("g.transect");
    let (path, group) = (recording.to_str().unwrap(), getegid().as_raw().to_string());
    let file = testdata("tracedat/pair-host.dat");
    run(scratch.path(), &["import", &file, "-o", path, "--group", &group]);
    let imported = assert_modes(&recording, 0o750, 0o640);
    run(scratch.path(), &["export", path, "--to", "jsonl", "--from", "0", "-o", "/dev/null"]);
    assert!(assert_modes(&recording, 0o750, 0o640) > imported, "no tables were made");
}

#[test]
fn unknown_group_is_refused_before_anything_is_made() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("r.transect");
    let (path, file) = (path.to_str().unwrap(), testdata("tracedat/v7-zstd.dat"));
    let import = ["import", &file, "-o", path, "--group", "no-such-group"];
    let record = ["record", "-o", path, "--group", "no-such-group", "--", "true"];
    for words in [&import[..], &record] {
        let output = transect(scratch.path(), words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("there is no group \"no-such-group\""), "{text}");
        assert!(!Path::new(path).exists());
    }
}

#[test]
fn tables_in_a_directory_that_was_opened_to_others_keep_its_rights() {
    umask(Mode::from_raw_mode(0o077));
    let scratch = tempfile::tempdir().unwrap();
    let recording = pair(scratch.path());
    fs::set_permissions(&recording, fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["export", &recording, "--to", "jsonl", "--from", "0", "-o", "/dev/null"];
    run(scratch.path(), &words);
    assert!(assert_modes(&Path::new(&recording).join("tables"), 0o755, 0o644) > 2);
}

/// root's unit runs the commands of that directory after every boot.
#[test]
fn benchmark_that_others_can_change_is_not_resumed_with_reboots() {
    let scratch = tempfile::tempdir().unwrap();
    let results = scratch.path().join("results");
    fs::create_dir(&results).unwrap();
    fs::set_permissions(&results, fs::Permissions::from_mode(0o777)).unwrap();
    let words = ["bench", "resume", "--may-reboot", results.to_str().unwrap()];
    let output = transect(scratch.path(), &words);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = "mode 0777 lets other users write to it: chmod 700";
    assert!(!output.status.success() && text.contains(expected), "{text}");
}

#[test]
fn output_that_is_a_symbolic_link_is_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let elsewhere = scratch.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let link = scratch.path().join("r.transect");
    symlink(&elsewhere, &link).unwrap();
    let (path, file) = (link.to_str().unwrap(), testdata("tracedat/v7-zstd.dat"));
    let import = ["import", &file, "-o", path];
    let record = ["record", "-o", path, "--", "true"];
    for words in [&import[..], &record] {
        let output = transect(scratch.path(), words);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains("symbolic link"), "{text}");
    }
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}
