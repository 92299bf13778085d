//! Tables are there whole, or not at all, and only as long as what they were made from.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed expectation is the report")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use transect_integrity::FileSums;
use transect_store::StoreError;
use transect_store::tables::{Basis, Stamp, TablesFolder, Written, ensure};

fn source(dir: &Path, text: &str) {
    fs::write(dir.join("host.dat"), text).unwrap();
}

fn basis(dir: &Path, options: &str) -> Basis {
    Basis::new("engine 1", options, [("host.dat".to_owned(), &*dir.join("host.dat"))]).unwrap()
}

/// Makes tables that hold `text`.
fn make(dir: &Path, options: &str, text: &str) -> Result<TablesFolder, StoreError> {
    ensure(dir, dir, &basis(dir, options), |tables, _| {
        fs::write(tables.join("x"), text).unwrap();
        let rows = BTreeMap::from([("exits".to_owned(), 3)]);
        Ok(Written { rows, ..Written::default() })
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
        ensure(dir, dir, &basis(dir, "other"), |tables, _| {
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
    let made = ensure(dir, dir, &basis(dir, "new"), |tables, _| -> Result<_, StoreError> {
        fs::write(tables.join("x"), "half").unwrap();
        fs::write(dir.join("half-way"), "").unwrap();
        std::thread::sleep(Duration::from_secs(600));
        Ok(Written::default())
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
                ensure(dir, dir, &basis(dir, ""), |tables, _| -> Result<_, StoreError> {
                    made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(30));
                    fs::write(tables.join("x"), "whole").unwrap();
                    Ok(Written::default())
                })
                .unwrap();
                assert_eq!(held(dir).as_deref(), Some("whole"));
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
}

const FILE: &str = "exits/bucket=0.parquet";

/// Makes tables of one file; what was found wrong with those that were there, if they are made.
fn make_file(dir: &Path) -> (TablesFolder, Option<String>) {
    let mut found = None;
    let made = ensure(dir, dir, &basis(dir, ""), |tables, damage| -> Result<_, StoreError> {
        found = damage.map(ToString::to_string);
        let path = tables.join(FILE);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, [7; 20_000]).unwrap();
        let mut written = Written::default();
        written.sums.files.insert(FILE.to_owned(), FileSums::of(&[7; 20_000]));
        Ok(written)
    });
    (made.unwrap(), found)
}

/// A recording that is moved, or named otherwise, is the same one.
#[test]
fn recording_keeps_its_tables_under_another_name() {
    let dirs = tempfile::tempdir().unwrap();
    let dir = dirs.path().join("a.transect");
    fs::create_dir(&dir).unwrap();
    source(&dir, "one");
    assert!(make_file(&dir).0.is_new);
    let link = dirs.path().join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    for name in [link, dir.join("."), dirs.path().join("a.transect//")] {
        assert!(!make_file(&name).0.is_new, "{}", name.display());
    }
    let moved = dirs.path().join("b.transect");
    fs::rename(&dir, &moved).unwrap();
    assert!(!make_file(&moved).0.is_new);
    source(&moved, "other");
    let (made, damage) = make_file(&moved);
    assert!(made.is_new && damage.is_none(), "stale tables are made again without a word");
}

#[test]
fn tables_that_are_not_what_was_written_are_made_again_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    source(dir, "one");
    assert_eq!(make_file(dir).1, None);
    let tables = dir.join("tables");
    let change = |what: &dyn Fn(&Path), expected: [&str; 2]| {
        what(&tables);
        let (made, damage) = make_file(dir);
        let damage = damage.unwrap();
        assert!(made.is_new && expected.iter().all(|e| damage.contains(e)), "{damage}");
        assert!(!make_file(dir).0.is_new, "{damage}");
    };
    change(&|dir| fs::remove_file(dir.join(FILE)).unwrap(), [FILE, "missing"]);
    change(&|dir| fs::write(dir.join(FILE), "cut").unwrap(), [FILE, "3 bytes"]);
    let stray = |dir: &Path| fs::write(dir.join("exits/late=0.parquet"), "").unwrap();
    change(&stray, ["exits/late=0.parquet", "not in the list"]);
    for name in ["stamp.json", "checksums.bin"] {
        change(&|dir| fs::remove_file(dir.join(name)).unwrap(), [name, "damage"]);
        change(&|dir| flip(&dir.join(name)), [name, "checksum"]);
    }
}

fn flip(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    fs::write(path, bytes).unwrap();
}
