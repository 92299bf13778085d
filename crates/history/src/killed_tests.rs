//! `kill -9` at random points: each window is there once, and each merged step is the sum of its windows.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use super::fold::Fold;
use super::segment::Place;
use super::{Index, Opened, Plan};
use crate::rendered::Rendered;
use crate::synthetic::{Made, START_UNIX_NS};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use transect_live::Snapshot;

const DIR: &str = "TRANSECT_TEST_HISTORY";
const NUMBER: &str = "TRANSECT_TEST_RUN";
/// Seconds from the begin of one run to the next.
const RUN_SECONDS: u64 = 100_000;

fn run_id(number: u64) -> u64 {
    START_UNIX_NS / 1_000_000 + number * RUN_SECONDS * 1000
}

fn kept_for_ever(dir: &Path, run: u64) -> Plan {
    let plan = super::tests::plan_of(dir, run);
    let keep_ns = u64::MAX / 4;
    Plan { windows_ns: keep_ns, ten_seconds_ns: keep_ns, keep_ns, ..plan }
}

/// Writes windows until it is killed; run by the test below in a process of its own.
#[test]
#[ignore = "a process for the test below"]
fn writer_until_killed() {
    let (Some(dir), Ok(number)) = (std::env::var_os(DIR), std::env::var(NUMBER)) else { return };
    let number: u64 = number.parse().unwrap();
    let Opened { index, queue, writer, .. } =
        kept_for_ever(Path::new(&dir), run_id(number)).open().unwrap();
    std::thread::spawn(move || writer.run(&|_| {}));
    let mut made = Made::new(1, 1);
    made.skip(i64::try_from(number * RUN_SECONDS).unwrap());
    let mut lost = 0;
    loop {
        queue.push(&Arc::new(Rendered::new(Arc::new(made.next_window()))));
        // Some are lost, as beside a slow disk, but not most.
        while std::mem::replace(&mut lost, index.numbers().lost) < index.numbers().lost {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

fn bytes_in(dir: &Path) -> u64 {
    fs::read_dir(dir)
        .unwrap()
        .filter_map(|entry| entry.ok()?.metadata().ok())
        .map(|f| f.len())
        .sum()
}

fn windows_of(places: &[Place]) -> Vec<(Snapshot, u64)> {
    let read = |place: &Place| {
        let run = place.note.run;
        place.read().unwrap().into_iter().map(move |window| (window, run))
    };
    places.iter().flat_map(read).collect()
}

fn merged(windows: &[(Snapshot, u64)], step_ns: u64) -> Vec<(Snapshot, u64)> {
    let mut fold = Fold::new(step_ns);
    let mut steps: Vec<_> = windows.iter().filter_map(|(w, run)| fold.push(w, *run)).collect();
    steps.extend(fold.finish());
    steps
}

fn assert_whole(index: &Index) -> usize {
    let series = index.places(0, u64::MAX);
    let all: Vec<_> = series.iter().map(|(_, places)| windows_of(places)).collect();
    for (windows, (tier, _)) in all.iter().zip(&series) {
        let mut keys: Vec<_> = windows.iter().map(|(window, run)| (*run, window.ts)).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count, "series {} has a window twice", tier.name);
    }
    for (number, (tier, _)) in series.iter().enumerate().skip(1) {
        let of = |all: &[(Snapshot, u64)]| {
            all.iter().map(|(step, run)| (*run, step.ts, step.dur)).collect::<Vec<_>>()
        };
        let expected = merged(&all[number - 1], tier.step_ns);
        assert_eq!(of(&all[number]), of(&expected), "series {}", tier.name);
        assert!(all[number] == expected, "series {} has other sums", tier.name);
    }
    all[0].len()
}

/// `TRANSECT_KILLS` sets how often.
#[test]
fn killed_at_random_points_every_window_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    let kills = std::env::var("TRANSECT_KILLS").ok().and_then(|text| text.parse().ok());
    let kills: u64 = kills.unwrap_or(5);
    let mut random = 45_u64;
    for number in 0..kills {
        let before = bytes_in(dir.path());
        let mut child = Command::new(std::env::current_exe().unwrap());
        let name = "killed_tests::writer_until_killed";
        child.args(["--ignored", "--exact", name]).env(DIR, dir.path());
        child.env(NUMBER, number.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = child.spawn().unwrap();
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let enough = before + 1 + (random >> 33) % 30_000;
        while bytes_in(dir.path()) < enough {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_micros(random >> 54));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let opened = kept_for_ever(dir.path(), run_id(kills)).open().unwrap();
    assert_eq!(opened.index.numbers().gone, 0, "{:?}", opened.told);
    assert!(assert_whole(&opened.index) as u64 > kills);
    drop(opened);
    // Once more: what was completed is not completed again.
    let opened = kept_for_ever(dir.path(), run_id(kills + 1)).open().unwrap();
    assert_whole(&opened.index);
}
