//! The history as a whole, with windows of a made-up host.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests report by failing")]

use super::read::plan;
use super::{Fold, Index, Opened, Piece, Plan, State};
use crate::rendered::Rendered;
use crate::synthetic::{Made, START_UNIX_NS};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use transect_live::{Antagonist, Snapshot, TABLES, lines};
use transect_model::ids::{MachineId, Tid};

const S: u64 = 1_000_000_000;

pub(crate) fn plan_of(dir: &Path, run: u64) -> Plan {
    Plan {
        dir: dir.to_owned(),
        window_ns: S,
        bytes_limit: 1 << 30,
        windows_ns: 3600 * S,
        ten_seconds_ns: 6 * 3600 * S,
        keep_ns: 24 * 3600 * S,
        flush: Duration::from_secs(5),
        run,
    }
}

/// Writes so many windows, and closes in order.
pub(crate) fn write(plan: Plan, windows: &[Arc<Snapshot>]) -> (Arc<Index>, Vec<String>) {
    let Opened { index, queue, writer, mut told } = plan.open().unwrap();
    let said = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let tell = |line: &str| said.lock().unwrap().push(line.to_owned());
        scope.spawn(move || writer.run(&tell));
        for window in windows {
            // The queue loses what comes too fast, as it should.
            let known = |index: &Index| index.numbers().lost;
            let before = known(&index);
            let rendered = Arc::new(Rendered::new(Arc::clone(window)));
            queue.push(&rendered);
            while known(&index) > before && index.numbers().state == State::Ok {
                std::thread::sleep(Duration::from_millis(1));
                index.note(|numbers| numbers.lost = before);
                queue.push(&rendered);
            }
        }
        drop(queue);
    });
    told.extend(said.into_inner().unwrap());
    (index, told)
}

pub(crate) fn windows(count: u64) -> Vec<Arc<Snapshot>> {
    let mut made = Made::new(2, 3);
    (0..count).map(|_| Arc::new(made.next_window())).collect()
}

fn read(index: &Index, from: u64, until: u64, step: u64) -> Vec<(Snapshot, u64)> {
    let mut fold = Fold::new(step);
    let mut steps = Vec::new();
    for piece in plan(index, &[], 1, (from, until, step)).pieces {
        for (window, run) in piece.read(index).unwrap() {
            steps.extend(fold.push(&window, run));
        }
    }
    steps.extend(fold.finish());
    steps
}

#[test]
fn what_is_read_is_what_was_written_merged_to_any_step() {
    let dir = tempfile::tempdir().unwrap();
    let written = windows(125);
    let (index, told) = write(plan_of(dir.path(), 1), &written);
    assert_eq!(told, Vec::<String>::new());
    let numbers = index.numbers();
    assert_eq!((numbers.written, numbers.lost, numbers.state), (125, 0, State::Ok));
    for step in [S, 10 * S, 60 * S] {
        let mut fold = Fold::new(step);
        let mut wanted: Vec<_> = written.iter().filter_map(|w| fold.push(w, 1)).collect();
        wanted.extend(fold.finish());
        let found = read(&index, 0, u64::MAX, step);
        let ends = |steps: &[(Snapshot, u64)]| {
            steps.iter().map(|(s, run)| (s.ended_unix_ns, s.dur, *run)).collect::<Vec<_>>()
        };
        assert_eq!(ends(&found), ends(&wanted), "step {step}");
        assert!(found == wanted, "step {step}");
    }
    // A part of it.
    let from = START_UNIX_NS + 20 * S;
    let part = read(&index, from, from + 30 * S, 10 * S);
    assert_eq!(part.len(), 3);
    assert_eq!(part.iter().map(|(s, _)| s.dur).sum::<i64>(), 30_000_000_000);
}

#[test]
fn zstdcat_gives_the_lines() {
    let dir = tempfile::tempdir().unwrap();
    write(plan_of(dir.path(), 1), &windows(7));
    let file = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = file.into_iter().find(|path| path.to_string_lossy().contains("/w-")).unwrap();
    let Ok(out) = Command::new("zstdcat").arg(&file).output() else {
        println!("skipped: no zstdcat here");
        return;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("\"table\":\"snapshot\"")).count(), 7);
    for line in text.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

/// Only the last file can be torn: wherever it is cut, all whole frames before are there.
#[test]
fn a_torn_end_is_cut_off_and_told_and_the_merged_series_are_completed() {
    let dir = tempfile::tempdir().unwrap();
    let (index, _) = write(plan_of(dir.path(), 1), &windows(30));
    let places = &index.places(0, u64::MAX)[0].1;
    assert_eq!(places.len(), 6);
    let path = places[5].path.to_path_buf();
    let last = usize::try_from(places[5].offset).unwrap();
    drop(index);
    let whole = fs::read(&path).unwrap();
    for cut in (last..whole.len()).step_by(41) {
        fs::write(&path, &whole[..cut]).unwrap();
        // The merged ones are lost, as if their step had not been over.
        for entry in fs::read_dir(dir.path()).unwrap() {
            let path = entry.unwrap().path();
            if !path.to_string_lossy().contains("/w-") {
                fs::remove_file(path).unwrap();
            }
        }
        let (index, told) = write(plan_of(dir.path(), 2), &[]);
        let is_torn = cut > last;
        assert_eq!(told.len(), usize::from(is_torn), "{told:?}");
        assert!(told.iter().all(|line| line.contains("cut after byte")), "{told:?}");
        let steps = read(&index, 0, u64::MAX, S);
        assert_eq!(steps.len(), 25, "cut at {cut}");
        let merged: i64 = read(&index, 0, u64::MAX, 60 * S).iter().map(|(s, _)| s.dur).sum();
        assert_eq!(merged, 25_000_000_000);
        assert_eq!(index.places(0, u64::MAX)[2].1.len(), 1, "a minute was made again");
    }
    // Damage that left the length as it was is no torn end: the file stays as it is.
    let mut damaged = whole.clone();
    let at = damaged.len() - 9;
    damaged[at] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let (_, told) = write(plan_of(dir.path(), 3), &[]);
    assert!(told[0].contains("5 windows are gone"), "{told:?}");
    assert_eq!(fs::read(&path).unwrap(), damaged);
}

#[test]
fn time_and_bytes_are_bounded_and_the_oldest_goes_first() {
    let dir = tempfile::tempdir().unwrap();
    // Two hours and a half of windows, of which an hour is kept; merged ones stay.
    let mut plan = plan_of(dir.path(), 1);
    plan.flush = Duration::from_secs(60);
    let (index, _) = write(plan, &windows(9000));
    let begins: Vec<u64> =
        index.places(0, u64::MAX).iter().map(|(_, places)| places[0].note.from_unix_ns).collect();
    let age = |from: u64| (START_UNIX_NS + 9000 * S - from) / S;
    assert!((3600..3600 + 2 * 660).contains(&age(begins[0])), "{} s of windows", age(begins[0]));
    assert_eq!((age(begins[1]), age(begins[2])), (9000, 9000));
    let bytes = index.numbers().bytes;
    let on_disk: u64 =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(bytes, on_disk, "every byte is known");
    drop(index);
    // Half of that is too much now.
    let mut plan = plan_of(dir.path(), 2);
    plan.bytes_limit = bytes / 2;
    let mut later = Made::new(2, 3);
    later.skip(9001);
    let more: Vec<_> = (0..10).map(|_| Arc::new(later.next_window())).collect();
    let (index, _) = write(plan, &more);
    assert!(index.numbers().bytes <= bytes / 2);
    assert_eq!(index.numbers().newest_unix_ns, Some(START_UNIX_NS + 9011 * S));
}

#[test]
fn older_time_comes_from_coarser_series_without_a_gap_or_an_overlap() {
    let dir = tempfile::tempdir().unwrap();
    let mut plan = plan_of(dir.path(), 1);
    plan.flush = Duration::from_secs(30);
    plan.windows_ns = 600 * S;
    plan.ten_seconds_ns = 3600 * S;
    let (index, _) = write(plan, &windows(3 * 3600));
    let steps = read(&index, 0, u64::MAX, S);
    let total: i64 = steps.iter().map(|(s, _)| s.dur).sum();
    assert_eq!(total, 3 * 3600 * 1_000_000_000);
    let mut edge = START_UNIX_NS;
    for (step, _) in &steps {
        assert_eq!(crate::rendered::began_unix_ns(step), edge);
        edge = step.ended_unix_ns;
    }
    let lengths: std::collections::BTreeSet<i64> =
        steps.iter().map(|(s, _)| s.dur / 1_000_000_000).collect();
    assert!([1, 10, 60].iter().all(|length| lengths.contains(length)), "{lengths:?}");
    drop(index);
    // What is too old in finer series is not taken for damage.
    let opened = plan_of(dir.path(), 2).open().unwrap();
    assert_eq!((opened.told, opened.index.numbers().gone), (Vec::new(), 0));
}

#[test]
fn windows_that_were_never_written_are_not_taken_for_damage() {
    let dir = tempfile::tempdir().unwrap();
    let mut made = Made::new(2, 3);
    let mut all = Vec::new();
    for pause in [0, 3, 17, 61, 700] {
        made.skip(pause);
        all.extend((0..13).map(|_| Arc::new(made.next_window())));
    }
    let (index, _) = write(plan_of(dir.path(), 1), &all);
    let bytes = index.numbers().bytes;
    drop(index);
    let opened = plan_of(dir.path(), 2).open().unwrap();
    let numbers = opened.index.numbers();
    assert_eq!((opened.told, numbers.gone, numbers.bytes), (Vec::new(), 0, bytes));
    for step in [S, 10 * S, 60 * S] {
        let mut fold = Fold::new(step);
        let mut wanted: Vec<_> = all.iter().filter_map(|w| fold.push(w, 1)).collect();
        wanted.extend(fold.finish());
        assert!(read(&opened.index, 0, u64::MAX, step) == wanted, "step {step}");
    }
}

/// The wall clock is read some µs beside the edges of windows, so that a merged step begins some µs before its windows.
#[test]
fn the_first_stretch_of_a_run_comes_at_the_step_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let beside = |window: &Arc<Snapshot>| {
        let mut window = Snapshot::clone(window);
        let is_last_of_step = window.ended_unix_ns.is_multiple_of(10 * S);
        window.ended_unix_ns -= if is_last_of_step { 7_000 } else { 0 };
        Arc::new(window)
    };
    let all: Vec<_> = windows(60).iter().map(beside).collect();
    let (index, _) = write(plan_of(dir.path(), 1), &all);
    for step in [S, 10 * S, 60 * S] {
        let steps = read(&index, 0, u64::MAX, step);
        let lengths = steps.iter().map(|(s, _)| s.dur.unsigned_abs()).collect::<Vec<_>>();
        assert_eq!(lengths, vec![step; usize::try_from(60 * S / step).unwrap()]);
    }
    drop(index);
    // A second run begins within a step, and the windows of the first are too old.
    let mut made = Made::new(2, 3);
    made.skip(63);
    let later: Vec<_> = (0..30).map(|_| Arc::new(made.next_window())).collect();
    drop(write(plan_of(dir.path(), 2), &later));
    fs::remove_file(dir.path().join(format!("w-{:012}.jsonl.zst", START_UNIX_NS / S))).unwrap();
    let (index, _) = write(plan_of(dir.path(), 3), &[]);
    let steps = read(&index, 0, u64::MAX, S);
    let of = |run: u64| {
        let own = steps.iter().filter(|(_, of)| *of == run);
        own.map(|(step, _)| step.dur).collect::<Vec<_>>()
    };
    assert_eq!(of(1), [10_000_000_000; 6]);
    assert_eq!(of(2), [1_000_000_000; 30]);
}

#[test]
fn memory_goes_on_where_the_disk_ends() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(20);
    let (index, _) = write(plan_of(dir.path(), 1), &all[..12]);
    let pieces = plan(&index, &all[8..], 1, (0, u64::MAX, S)).pieces;
    let memory = pieces.iter().filter(|piece| matches!(piece, Piece::Memory(..))).count();
    assert_eq!(memory, 8);
    let found: Vec<_> = pieces.iter().flat_map(|piece| piece.read(&index).unwrap()).collect();
    assert_eq!(
        found.iter().map(|(w, _)| w.ts).collect::<Vec<_>>(),
        all.iter().map(|w| w.ts).collect::<Vec<_>>()
    );
}

/// A coarser step is written as soon as it is over, the windows in it later: until then memory has them alone.
#[test]
fn what_is_in_memory_alone_is_found_behind_a_coarser_step_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(30);
    drop(write(plan_of(dir.path(), 1), &all));
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("w-") {
            fs::remove_file(path).unwrap();
        }
    }
    let (index, _) = write(plan_of(dir.path(), 1), &[]);
    assert!(
        !plan(&index, &[], 1, (0, u64::MAX, S)).pieces.is_empty(),
        "the coarser series are there"
    );
    for (at, window) in all.iter().enumerate().skip(1) {
        // From as far before it as a question's beginning may be put back to an edge of a step.
        let from = crate::rendered::began_unix_ns(window) - S / 4;
        let asked = (from, window.ended_unix_ns, S);
        let found = plan(&index, &all[at - 1..], 1, asked).pieces;
        let found: Vec<_> = found.iter().flat_map(|piece| piece.read(&index).unwrap()).collect();
        assert_eq!(found.iter().map(|(w, _)| w.ts).collect::<Vec<_>>(), [window.ts]);
    }
}

#[test]
fn a_second_daemon_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = plan_of(dir.path(), 1).open().unwrap();
    let why = plan_of(dir.path(), 2).open().err().unwrap();
    assert!(why.contains("another daemon"), "{why}");
    drop(first);
    assert!(plan_of(dir.path(), 3).open().is_ok());
}

struct Mounted<'d>(&'d Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

/// Tier `make test`: a file system of its own needs root.
mod host {
    use super::*;

    /// A file system of 1 MiB, full, and with room again.
    #[test]
    fn a_full_disk_is_a_state_that_passes() {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(dir.path());
        if !mount.status().is_ok_and(|status| status.success()) {
            println!("skipped: cannot mount a small tmpfs here");
            return;
        }
        let mounted = Mounted(dir.path());
        let ballast = dir.path().join("ballast");
        fs::write(&ballast, vec![1; 900 << 10]).unwrap();
        let Opened { index, queue, writer, .. } =
            plan_of(&dir.path().join("history"), 1).open().unwrap();
        let said = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| writer.run(&|line: &str| said.lock().unwrap().push(line.to_owned())));
            let mut made = Made::new(30, 40);
            let mut until = |wanted: &str, lost: u64| {
                for _ in 0..20_000 {
                    queue.push(&Arc::new(Rendered::new(Arc::new(made.next_window()))));
                    std::thread::sleep(Duration::from_millis(1));
                    let numbers = index.numbers();
                    if numbers.state.word() == wanted && numbers.lost >= lost {
                        return;
                    }
                }
                panic!("never {wanted}: {:?}", index.numbers());
            };
            until("ok", 0);
            // A step of a merged series can be the first to find no space: its windows are written already.
            until("full", 1);
            fs::remove_file(&ballast).unwrap();
            until("ok", 1);
            drop(queue);
        });
        let said = said.into_inner().unwrap();
        assert!(said.iter().any(|line| line.contains("history stopped") && line.contains("space")));
        assert!(said.iter().any(|line| line.contains("history resumed")), "{said:?}");
        drop(index);
        // Nothing torn was left behind.
        let opened = plan_of(&dir.path().join("history"), 2).open().unwrap();
        assert_eq!(opened.told, Vec::<String>::new());
        drop((opened, mounted));
    }
}

/// Of a host with a thousand VMs, each of which waits behind another: beside the text that the history has of the window.
#[test]
fn findings_of_a_large_window_cost_little_beside_its_text() {
    let mut made = Made::new(1000, 1000);
    made.skip(6);
    let mut window = made.next_window();
    let one = window.antagonists[0].clone();
    let vms = 1..=1000_u32;
    window.antagonists = vms.clone().map(|vm| of_vm(&one, vm, vm % 1000 + 1)).collect();
    for thread in &mut window.threads {
        thread.waited_ns = 300_000_000;
    }
    let fastest = |run: &dyn Fn() -> usize| {
        let times = (0..5).map(|_| {
            let begun = std::time::Instant::now();
            assert!(run() > 0);
            begun.elapsed()
        });
        times.min().unwrap()
    };
    let findings = fastest(&|| window.findings().len());
    let others = || TABLES.into_iter().filter(|table| *table != "findings");
    let text = fastest(&|| {
        others().map(|table| lines::Rendered::table(&window, table).json().len()).sum()
    });
    println!(
        "findings {findings:?}, text {text:?}: {:.3}",
        findings.as_secs_f64() / text.as_secs_f64()
    );
    assert_eq!(window.findings().len(), 256, "of 1000");
    assert!(findings < text);
}

fn of_vm(one: &Antagonist, vm: u32, by: u32) -> Antagonist {
    let tid = |vm: u32| Tid(i32::try_from(2000 + vm).unwrap());
    Antagonist {
        machine_id: MachineId(vm),
        tid: tid(vm),
        by_machine_id: MachineId(by),
        by_tid: tid(by),
        ns: 290_000_000,
        ..one.clone()
    }
}
