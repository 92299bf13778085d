//! Damaged files: an answer is whole, or states the windows that are gone and is right about all others.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]

use super::read::{Piece, plan_verified};
use super::segment::Gone;
use super::tests::{plan_of, windows, write};
use super::{Index, Opened, frame, verify};
use crate::rendered::Rendered;
use crate::rendered::began_unix_ns;
use crate::synthetic::{Made, START_UNIX_NS};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use transect_live::Snapshot;

const S: u64 = 1_000_000_000;
const RUNS: u64 = 3;
/// Windows of a run, and seconds from the begin of one to the next.
const RUN_WINDOWS: u64 = 25;
const RUN_SECONDS: u64 = 32;

/// A window without its rows, but for a sum of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Light {
    run: u64,
    from: u64,
    until: u64,
    dur: i64,
    waited_ns: i64,
}

impl Light {
    fn of(window: &Snapshot, run: u64) -> Self {
        let waited_ns = window.actors.iter().map(|actor| actor.window.waited_ns).sum();
        let (from, until) = (began_unix_ns(window), window.ended_unix_ns);
        Light { run, from, until, dur: window.dur, waited_ns }
    }

    fn middle(&self) -> u64 {
        self.from + (self.until - self.from) / 2
    }
}

fn run_id(number: u64) -> u64 {
    (START_UNIX_NS + number * RUN_SECONDS * S) / 1_000_000
}

/// Three runs with a pause behind each: the files by name.
fn history(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    for number in 0..RUNS {
        let mut made = Made::new(1, 1);
        made.skip(i64::try_from(number * RUN_SECONDS).unwrap());
        let windows: Vec<_> = (0..RUN_WINDOWS).map(|_| Arc::new(made.next_window())).collect();
        let (_, told) = write(plan_of(dir, run_id(number)), &windows);
        assert_eq!(told, Vec::<String>::new());
    }
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|end| end == "zst"))
        .map(|path| (path.clone(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

fn offsets(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|at| bytes[*at..].starts_with(frame::HEAD)).collect()
}

/// The windows of frames that were read before, by their bytes on disk.
type Known = Mutex<HashMap<Vec<u8>, Vec<Light>>>;

fn answer(index: &Index, step: u64, known: &Known) -> (Vec<Light>, Vec<Gone>) {
    let planned = plan_verified(index, &[], 1, (0, u64::MAX / 2, step)).unwrap();
    let mut all = Vec::new();
    for piece in &planned.pieces {
        let Piece::Disk { place, from, until } = piece else { unreachable!("nothing in memory") };
        let mut known = known.lock().unwrap();
        let windows = known.entry(place.bytes().unwrap()).or_insert_with(|| {
            let windows = place.read().unwrap();
            windows.iter().map(|window| Light::of(window, place.note.run)).collect()
        });
        all.extend(windows.iter().filter(|w| (*from..*until).contains(&w.middle())).copied());
    }
    (all, planned.gone)
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % limit.max(1) as u64).unwrap()
    }
}

const KINDS: [&str; 9] = [
    "flip",
    "cut",
    "bytes out",
    "bytes in",
    "zeros",
    "frame out",
    "frame again",
    "last frame first",
    "file away",
];

/// Damages a file; none: it is deleted.
fn damage(bytes: &[u8], kind: usize, random: &mut Random) -> Option<Vec<u8>> {
    let at = random.below(bytes.len());
    let length = random.below(bytes.len() / 2) + 1;
    let end = (at + length).min(bytes.len());
    let starts = offsets(bytes);
    let frame = random.below(starts.len());
    let begin = starts.get(frame).copied().unwrap_or(0);
    let behind = starts.get(frame + 1).copied().unwrap_or(bytes.len());
    Some(match KINDS[kind] {
        "flip" => {
            let mut bytes = bytes.to_vec();
            bytes[at] ^= 1 << random.below(8);
            bytes
        }
        "cut" => bytes[..at].to_vec(),
        "bytes out" => [&bytes[..at], &bytes[end..]].concat(),
        "bytes in" => [&bytes[..at], &bytes[bytes.len() - length..], &bytes[at..]].concat(),
        "zeros" => [&bytes[..at], &vec![0; end - at], &bytes[end..]].concat(),
        "frame out" => [&bytes[..begin], &bytes[behind..]].concat(),
        "last frame first" => [&bytes[*starts.last().unwrap_or(&0)..], bytes].concat(),
        "frame again" => [&bytes[..behind], &bytes[begin..]].concat(),
        _ => return None,
    })
}

/// Why an answer is wrong.
fn fault(truth: &[Light], (found, gone): &(Vec<Light>, Vec<Gone>)) -> Option<String> {
    let is_gone = |from: u64, until: u64| {
        gone.iter().any(|gone| gone.from_unix_ns < until && gone.until_unix_ns > from)
    };
    let mut times = vec![0_u32; truth.len()];
    for step in found {
        let mut sum = (0, 0);
        for (window, times) in truth.iter().zip(&mut times) {
            if window.run == step.run && (step.from..step.until).contains(&window.middle()) {
                *times += 1;
                sum = (sum.0 + window.dur, sum.1 + window.waited_ns);
            }
        }
        let is_less = step.dur <= sum.0 && step.waited_ns <= sum.1;
        if (step.dur, step.waited_ns) != sum && !(is_gone(step.from, step.until) && is_less) {
            return Some(format!("{step:?} has not the sum of its windows, {sum:?}"));
        }
    }
    truth.iter().zip(times).find_map(|(window, times)| match times {
        0 if !is_gone(window.from, window.until) => Some(format!("{window:?} is not there")),
        2.. => Some(format!("{window:?} is there {times} times")),
        _ => None,
    })
}

/// A thousand cases: one or two files with damage of every kind, each answer at each step. `TRANSECT_DAMAGE_SEED` has
/// other cases.
#[test]
fn no_damage_makes_a_wrong_answer() {
    let dir = tempfile::tempdir().unwrap();
    let files = history(dir.path());
    let known = Known::default();
    let later = run_id(RUNS + 1);
    let opened = plan_of(dir.path(), later).open().unwrap();
    let (truth, gone) = answer(&opened.index, S, &known);
    assert_eq!((truth.len() as u64, gone.len()), (RUNS * RUN_WINDOWS, 0));
    drop(opened);
    let seed = std::env::var("TRANSECT_DAMAGE_SEED").ok().and_then(|text| text.parse().ok());
    let mut random = Random(seed.unwrap_or(45));
    let (mut outcomes, mut stated) = ([[0; 2]; KINDS.len()], 0);
    for case in 0..1000 {
        for entry in fs::read_dir(dir.path()).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let kind = case % KINDS.len();
        let mut now: HashMap<&Path, Option<Vec<u8>>> =
            files.iter().map(|(path, bytes)| (path.as_path(), Some(bytes.clone()))).collect();
        for _ in 0..=random.below(2) {
            let (path, _) = &files[random.below(files.len())];
            let bytes = now.get_mut(path.as_path()).unwrap();
            let damaged = bytes.as_ref().and_then(|bytes| damage(bytes, kind, &mut random));
            *bytes = damaged.filter(|bytes| !bytes.is_empty());
        }
        for (path, bytes) in &now {
            if let Some(bytes) = bytes {
                fs::write(path, bytes).unwrap();
            }
        }
        let opened = plan_of(dir.path(), later).open().unwrap();
        let mut is_stated = false;
        for step in [S, 10 * S, 60 * S] {
            let answered = answer(&opened.index, step, &known);
            is_stated |= !answered.1.is_empty();
            if let Some(fault) = fault(&truth, &answered) {
                panic!(
                    "case {case} ({}), step {} s: {fault}\n{:?}\n{:?}",
                    KINDS[kind],
                    step / S,
                    answered.1,
                    opened.told
                );
            }
        }
        stated += u64::from(is_stated);
        outcomes[kind][usize::from(is_stated)] += 1;
        for (tier, places) in opened.index.places(0, u64::MAX) {
            let begins: BTreeSet<_> =
                places.iter().map(|place| (place.note.run, place.note.from_unix_ns)).collect();
            assert_eq!(begins.len(), places.len(), "case {case}: series {} twice", tier.name);
        }
        drop(opened);
        // What a repair leaves is whole, and as right.
        if case % 10 == 0 {
            verify::repair(dir.path()).unwrap();
            let report = verify::verify(dir.path()).unwrap();
            assert!(report.is_whole(), "case {case}: {report:?}");
            let opened = plan_of(dir.path(), later).open().unwrap();
            for step in [S, 10 * S, 60 * S] {
                let fault = fault(&truth, &answer(&opened.index, step, &known));
                assert_eq!(fault, None, "case {case}, repaired");
            }
        }
    }
    assert!(stated > 300, "the damage was seen in {stated} cases");
    for (kind, [equal, gone]) in KINDS.iter().zip(outcomes) {
        println!("{kind:16} equal {equal:3}  gone windows stated {gone:3}");
    }
}

/// A file of another run has frames of this one, too.
#[test]
fn a_frame_in_two_files_is_read_once_and_in_order_of_time() {
    let dir = tempfile::tempdir().unwrap();
    let files = history(dir.path());
    let known = Known::default();
    let opened = plan_of(dir.path(), run_id(RUNS)).open().unwrap();
    let (truth, _) = answer(&opened.index, S, &known);
    drop(opened);
    let windows: Vec<_> =
        files.iter().filter(|(path, _)| path.to_string_lossy().contains("/w-")).collect();
    let (last, first) = (&windows[2].1, windows[0]);
    let starts = offsets(last);
    fs::write(&first.0, [&first.1[..], &last[starts[3]..]].concat()).unwrap();
    let opened = plan_of(dir.path(), run_id(RUNS)).open().unwrap();
    let (found, gone) = answer(&opened.index, S, &known);
    assert_eq!((found == truth, gone.len()), (true, 0));
}

/// Files whose notes have no checksum of their frames.
#[test]
fn files_of_older_versions_are_verified_by_decompression() {
    let dir = tempfile::tempdir().unwrap();
    for (path, mut bytes) in history(dir.path()) {
        for at in offsets(&bytes) {
            bytes[at + 52..at + 56].fill(0);
            let sum = crc32fast::hash(&bytes[at + 8..at + 56]);
            bytes[at + 56..at + 60].copy_from_slice(&sum.to_le_bytes());
        }
        fs::write(&path, &bytes).unwrap();
    }
    let known = Known::default();
    let opened = plan_of(dir.path(), run_id(RUNS)).open().unwrap();
    let (truth, gone) = answer(&opened.index, S, &known);
    assert_eq!((truth.len() as u64, gone.len()), (RUNS * RUN_WINDOWS, 0));
    assert_eq!((opened.told.len(), opened.index.numbers().gone), (0, 0));
    let place = opened.index.places(0, u64::MAX)[0].1[6].clone();
    let mut bytes = fs::read(&place.path).unwrap();
    bytes[usize::try_from(place.offset).unwrap() + frame::NOTE_BYTES + 40] ^= 1;
    fs::write(&place.path, &bytes).unwrap();
    let damaged = answer(&opened.index, S, &known);
    assert_eq!(damaged.1.iter().map(|gone| gone.windows).sum::<u64>(), 5);
    assert_eq!(fault(&truth, &damaged), None);
}

/// A daemon that runs: what is damaged or deleted under it is left out, stated, counted and reported once.
#[test]
fn damage_under_a_running_daemon_is_found_before_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (index, told) = write(plan_of(dir.path(), 1), &windows(60));
    assert_eq!(told, Vec::<String>::new());
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    index.tell_to(Arc::new(move |line| log.lock().unwrap().push(line.to_owned())));
    let place = index.places(0, u64::MAX)[0].1[3].clone();
    let path = place.path.to_path_buf();
    let mut bytes = fs::read(&path).unwrap();
    bytes[usize::try_from(place.offset).unwrap() + frame::NOTE_BYTES + 9] ^= 4;
    fs::write(&path, &bytes).unwrap();
    let ask = |step| plan_verified(&index, &[], 1, (0, u64::MAX / 2, step)).unwrap();
    for _ in 0..2 {
        let begin = START_UNIX_NS + 15 * S;
        let gone = Gone { from_unix_ns: begin, until_unix_ns: begin + 5 * S, windows: 5 };
        assert_eq!(ask(S).gone, [gone]);
        assert_eq!(ask(10 * S).gone, []);
    }
    assert_eq!(index.numbers().gone, 5);
    fs::remove_file(&path).unwrap();
    assert_eq!(ask(S).gone_windows(), 60);
    assert_eq!(index.numbers().gone, 60);
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("5 windows are gone") && lines[1].contains("55 windows are gone"));
}

#[test]
fn a_deleted_file_that_was_being_written_is_continued_in_another() {
    let dir = tempfile::tempdir().unwrap();
    let Opened { index, queue, writer, .. } = plan_of(dir.path(), 1).open().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writer.run(&|_| {}));
        for (number, window) in (1..).zip(windows(20)) {
            queue.push(&Arc::new(Rendered::new(window)));
            // A frame has five windows.
            while number % 5 == 0 && index.numbers().written < number {
                std::thread::sleep(Duration::from_millis(1));
            }
            if number == 10 {
                fs::remove_file(&index.places(0, u64::MAX)[0].1[0].path).unwrap();
            }
        }
        drop(queue);
    });
    let planned = plan_verified(&index, &[], 1, (0, u64::MAX / 2, S)).unwrap();
    let until_unix_ns = START_UNIX_NS + 10 * S;
    let gone = Gone { from_unix_ns: START_UNIX_NS, until_unix_ns, windows: 10 };
    assert_eq!((planned.gone, planned.pieces.len()), (vec![gone], 2));
    assert!(planned.pieces.iter().all(|piece| piece.read(&index).unwrap().len() == 5));
    let written: u64 = verify::verify(dir.path()).unwrap().files[0].windows;
    assert_eq!(written, 10);
}

/// Between the verification and the reading.
#[test]
fn damage_behind_the_check_ends_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let (index, _) = write(plan_of(dir.path(), 1), &windows(20));
    let lines = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&lines);
    index.tell_to(Arc::new(move |line| log.lock().unwrap().push(line.to_owned())));
    let planned = plan_verified(&index, &[], 1, (0, u64::MAX / 2, S)).unwrap();
    let Piece::Disk { place, .. } = &planned.pieces[1] else { panic!("on disk") };
    let mut bytes = fs::read(&place.path).unwrap();
    bytes[usize::try_from(place.offset).unwrap() + frame::NOTE_BYTES] ^= 4;
    fs::write(&place.path, &bytes).unwrap();
    assert!(planned.pieces[0].read(&index).is_ok());
    for _ in 0..2 {
        assert!(planned.pieces[1].read(&index).is_err());
    }
    let lines = lines.lock().unwrap();
    assert!(
        lines.iter().any(|line| line.contains("was ended before it was complete")),
        "{lines:?}"
    );
}

#[test]
fn a_file_that_cannot_be_opened_does_not_stop_the_start() {
    let dir = tempfile::tempdir().unwrap();
    drop(write(plan_of(dir.path(), 1), &windows(60)));
    let path = dir.path().join(format!("10s-{:012}.jsonl.zst", START_UNIX_NS / S));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let opened = plan_of(dir.path(), run_id(9)).open().unwrap();
    assert_eq!(opened.told.len(), 1, "{:?}", opened.told);
    assert!(opened.told[0].contains("it cannot be read (is no plain file)"), "{:?}", opened.told);
    assert!(opened.index.numbers().gone >= 6, "{:?}", opened.index.numbers());
    let planned = plan_verified(&opened.index, &[], 1, (0, u64::MAX / 2, 10 * S)).unwrap();
    assert!(planned.gone_windows() >= 6);
}

#[test]
fn the_scrub_finds_damage_that_no_client_asks_for() {
    let dir = tempfile::tempdir().unwrap();
    let (index, _) = write(plan_of(dir.path(), 1), &windows(30));
    let place = index.places(0, u64::MAX)[1].1[1].clone();
    let mut bytes = fs::read(&place.path).unwrap();
    bytes[usize::try_from(place.offset).unwrap() + frame::NOTE_BYTES + 9] ^= 4;
    fs::write(&place.path, &bytes).unwrap();
    super::scrub(&index, &|_| false);
    assert_eq!(index.numbers().gone, 1);
}

/// A frame that a killed run left is damaged: the step that it is in is stated as gone, not made of the rest.
#[test]
fn a_step_is_not_completed_from_a_part_of_its_windows() {
    let dir = tempfile::tempdir().unwrap();
    let all = windows(30);
    let (index, _) = write(plan_of(dir.path(), 1), &all);
    let place = index.places(0, u64::MAX)[0].1[3].clone();
    drop(index);
    let mut bytes = fs::read(&place.path).unwrap();
    bytes[usize::try_from(place.offset).unwrap() + frame::NOTE_BYTES + 9] ^= 4;
    fs::write(&place.path, &bytes).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if !path.to_string_lossy().contains("/w-") {
            fs::remove_file(path).unwrap();
        }
    }
    for run in [2, 3] {
        let opened = plan_of(dir.path(), run).open().unwrap();
        let planned = plan_verified(&opened.index, &[], 1, (0, u64::MAX / 2, 10 * S)).unwrap();
        let begin = START_UNIX_NS + 10 * S;
        let gone = Gone { from_unix_ns: begin, until_unix_ns: begin + 10 * S, windows: 1 };
        assert_eq!((planned.pieces.len(), planned.gone), (2, vec![gone]), "run {run}");
    }
}
