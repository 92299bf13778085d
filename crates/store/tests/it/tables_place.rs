//! Tables are there whole, or not at all, and only as long as what they were made from.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the report")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use transect_store::StoreError;
use transect_store::tables::{Basis, Stamp, TablesFolder, ensure};

fn source(dir: &Path, text: &str) {
    fs::write(dir.join("host.dat"), text).unwrap();
}

fn basis(dir: &Path, options: &str) -> Basis {
    Basis::new("engine 1", options, [&*dir.join("host.dat")]).unwrap()
}

/// Makes tables that hold `text`.
fn make(dir: &Path, options: &str, text: &str) -> Result<TablesFolder, StoreError> {
    ensure(dir, &basis(dir, options), |tables| {
        fs::write(tables.join("x"), text).unwrap();
        Ok(BTreeMap::from([("exits".to_owned(), 3)]))
    })
}

fn held(dir: &Path) -> Option<String> {
    Stamp::read(&dir.join("tables"))?;
    fs::read_to_string(dir.join("tables/x")).ok()
}

#[test]
fn tables_are_made_once_and_again_when_something_changed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    source(dir, "one");
    let first = make(dir, "", "first").unwrap();
    assert!(first.is_new && first.stamp.rows["exits"] == 3);
    let again = make(dir, "", "second").unwrap();
    assert_eq!(again, TablesFolder { is_new: false, ..first });
    assert_eq!(held(dir).as_deref(), Some("first"));
    assert!(make(dir, "--tsc-hz 1", "third").unwrap().is_new);
    source(dir, "more");
    assert!(make(dir, "--tsc-hz 1", "fourth").unwrap().is_new);
    assert_eq!(held(dir).as_deref(), Some("fourth"));
    assert!(!dir.join("tables.tmp").exists());
}

#[test]
fn what_fails_leaves_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    source(dir, "one");
    let fail = || {
        ensure(dir, &basis(dir, "other"), |tables| {
            fs::write(tables.join("x"), "half").unwrap();
            Err(StoreError::NoSpace { path: tables.to_owned() })
        })
    };
    assert!(fail().is_err() && held(dir).is_none());
    make(dir, "", "whole").unwrap();
    assert!(fail().is_err());
    assert_eq!(held(dir).as_deref(), Some("whole"));
    assert!(!dir.join("tables.tmp").exists());
}

/// A stamp that cannot be understood, or tables without one, are no tables.
#[test]
fn tables_without_a_stamp_are_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    source(dir, "one");
    make(dir, "", "first").unwrap();
    for broken in ["", "{", "{\"basis\":{}}"] {
        fs::write(dir.join("tables/stamp.json"), broken).unwrap();
        assert!(make(dir, "", broken).unwrap().is_new);
        assert_eq!(held(dir).as_deref(), Some(broken));
    }
}

const CHILD: &str = "TRANSECT_TEST_MAKE_TABLES_IN";

/// Not a test of its own: the process that is killed by the next one.
#[test]
fn maker_that_is_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let dir = Path::new(&dir);
    let made = ensure(dir, &basis(dir, "new"), |tables| -> Result<_, StoreError> {
        fs::write(tables.join("x"), "half").unwrap();
        fs::write(dir.join("half-way"), "").unwrap();
        std::thread::sleep(Duration::from_secs(600));
        Ok(BTreeMap::new())
    });
    panic!("should be dead: {made:?}");
}

#[test]
fn a_killed_maker_leaves_the_old_tables_and_the_next_one_makes_new_ones() {
    for had_tables in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        source(dir, "one");
        if had_tables {
            make(dir, "", "old").unwrap();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tables_place::maker_that_is_killed"])
            .env(CHILD, dir)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while !dir.join("half-way").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the child does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(dir.join("tables.tmp/x").exists(), "it was killed half way");
        assert_eq!(held(dir).as_deref(), had_tables.then_some("old"));
        assert!(make(dir, "new", "new").unwrap().is_new);
        assert_eq!(held(dir).as_deref(), Some("new"));
        assert!(!dir.join("tables.tmp").exists());
    }
}

/// Two at once: one makes them, the other waits and takes them.
#[test]
fn makers_wait_for_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    source(dir, "one");
    let made = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                ensure(dir, &basis(dir, ""), |tables| -> Result<_, StoreError> {
                    made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(30));
                    fs::write(tables.join("x"), "whole").unwrap();
                    Ok(BTreeMap::new())
                })
                .unwrap();
                assert_eq!(held(dir).as_deref(), Some("whole"));
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
}
