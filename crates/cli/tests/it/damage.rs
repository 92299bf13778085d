//! Tables that are damaged: every verb answers as from whole ones, or names the file and what to do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]

use crate::view_support::{Served, pair, testdata, transect};
use serde_json::json;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const FILE: &str = "exits/machine_id=1/bucket=0.parquet";
const MADE_AGAIN: &str = "the recording's tables are made again";
const SUMS: &str = "SELECT reason, count(*), sum(dur) FROM exits GROUP BY reason ORDER BY reason";

/// A recording with tables.
struct Place {
    dir: tempfile::TempDir,
    recording: String,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let recording = pair(dir.path());
        let place = Place { dir, recording };
        place.good(&["tables", &place.recording]);
        place
    }

    fn run(&self, words: &[&str]) -> Output {
        transect(self.dir.path(), words)
    }

    /// What it prints and what it says.
    fn good(&self, words: &[&str]) -> (String, String) {
        let Output { status, stdout, stderr } = self.run(words);
        let said = about_tables(stderr);
        assert!(status.success(), "{words:?}: {said}");
        (String::from_utf8_lossy(&stdout).into_owned(), said)
    }

    fn sql(&self, sql: &str) -> (String, String) {
        self.good(&["sql", &self.recording, "--csv", sql])
    }

    fn tables(&self) -> PathBuf {
        Path::new(&self.recording).join("tables")
    }

    fn file(&self) -> PathBuf {
        self.tables().join(FILE)
    }

    fn is_new(&self, path: &str) -> bool {
        self.good(&["tables", path, "--json"]).0.contains("\"is_new\":true")
    }
}

/// What was said, without what is not about tables.
fn about_tables(stderr: Vec<u8>) -> String {
    let said = String::from_utf8(stderr).unwrap();
    // Leftovers of recorders that other tests on this machine kill are reported by every verb.
    let others = ["transect: engine: ", "transect: the recorder with pid "];
    let lines = said.lines().filter(|line| !others.iter().any(|other| line.starts_with(other)));
    lines.map(|line| format!("{line}\n")).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

/// One line that names the file.
fn is_told(said: &str, name: &str) {
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(name) && said.contains(MADE_AGAIN), "{said}");
}

#[test]
fn query_on_damaged_tables_has_the_same_answer_and_says_so_once() {
    let place = Place::new();
    let (whole, said) = place.sql(SUMS);
    assert!(said.is_empty() && whole.lines().count() > 3, "{said}{whole}");
    let file = place.file();
    let content = fs::read(&file).unwrap();
    let check = |name: &str| {
        let (answer, said) = place.sql(SUMS);
        assert_eq!(answer, whole, "{said}");
        is_told(&said, name);
        assert_eq!(place.sql(SUMS), (whole.clone(), String::new()), "only once");
        assert_eq!(fs::read(&file).unwrap(), content, "the same tables");
    };
    // The columns' pages, and the footer that describes them.
    for at in [10, content.len() / 3, content.len() / 2, content.len() - 200, content.len() - 5] {
        flip(&file, at);
        check(FILE);
    }
    fs::remove_file(&file).unwrap();
    check(FILE);
    fs::write(&file, &content[..content.len() / 2]).unwrap();
    check(FILE);
    fs::write(place.tables().join("exits/late=9.parquet"), &content).unwrap();
    check("exits/late=9.parquet");
    for name in ["stamp.json", "checksums.bin"] {
        flip(&place.tables().join(name), 70);
        check(name);
        fs::remove_file(place.tables().join(name)).unwrap();
        check(name);
    }
    fs::rename(place.tables().join("machines"), place.tables().join("mirrors")).unwrap();
    check("machines");
}

/// What was printed cannot be taken back, and what came through a pipe cannot be read again.
#[test]
fn answer_that_has_begun_ends_with_an_error_and_the_next_one_is_right() {
    let place = Place::new();
    let whole = place.sql(SUMS).0;
    let middle = fs::read(place.file()).unwrap().len() / 2;
    let refused = |output: Output| {
        let said = about_tables(output.stderr);
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(FILE) && said.contains("transect verify"), "{said}");
        let (answer, said) = place.sql(SUMS);
        assert_eq!(answer, whole);
        assert!(said.contains(MADE_AGAIN), "{said}");
        assert!(place.sql(SUMS).1.is_empty());
    };
    flip(&place.file(), middle);
    let both = format!("SELECT * FROM thread_states; {SUMS}");
    let output = place.run(&["sql", &place.recording, "--csv", &both]);
    assert!(output.stdout.len() > 8192, "it had begun");
    refused(output);
    flip(&place.file(), middle);
    let mut command = Command::new(env!("CARGO_BIN_EXE_transect"));
    command.args(["sql", &place.recording]).env("XDG_CACHE_HOME", place.dir.path());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(SUMS.as_bytes()).unwrap();
    refused(child.wait_with_output().unwrap());
}

#[test]
fn recording_keeps_its_tables_however_it_is_named() {
    let place = Place::new();
    assert!(!place.is_new(&place.recording));
    let dir = place.dir.path();
    std::os::unix::fs::symlink(&place.recording, dir.join("link")).unwrap();
    for name in [format!("{}/", place.recording), dir.join("link").display().to_string()] {
        assert!(!place.is_new(&name), "{name}");
    }
    let mut relative = Command::new(env!("CARGO_BIN_EXE_transect"));
    relative.args(["tables", "pair.transect", "--json"]).current_dir(dir);
    let told = relative.output().unwrap().stdout;
    assert!(String::from_utf8(told).unwrap().contains("\"is_new\":false"));
    let moved = dir.join("moved.transect").display().to_string();
    fs::rename(&place.recording, &moved).unwrap();
    assert!(!place.is_new(&moved));
    // Files that its rows do not depend on.
    for name in ["checksums.bin", ".reserve"] {
        fs::write(Path::new(&moved).join(name), "x").unwrap();
    }
    fs::remove_file(Path::new(&moved).join("checksums.bin")).unwrap();
    assert!(!place.is_new(&moved));
}

#[test]
fn ranges_of_damaged_tables_are_those_of_whole_ones() {
    let place = Place::new();
    let (span, _) = place.sql("SELECT min(ts), max(ts) FROM exits");
    let span: Vec<i64> =
        span.lines().nth(1).unwrap().split(',').map(|ts| ts.parse().unwrap()).collect();
    let (from, until) = (span[0].to_string(), span[1].to_string());
    let range = ["--from", &from, "--until", &until];
    let part = place.dir.path().join("part.transect").display().to_string();
    let verbs: [&[&str]; 3] = [
        &["report", &place.recording],
        &["export", &place.recording, "--to", "jsonl", "-o", "-"],
        &["sql", &place.recording, SUMS],
    ];
    let middle = fs::read(place.file()).unwrap().len() / 2;
    for verb in verbs {
        let words = [verb, &range].concat();
        let (whole, _) = place.good(&words);
        flip(&place.file(), middle);
        let (answer, said) = place.good(&words);
        assert_eq!(answer, whole, "{words:?}");
        assert!(said.contains(FILE) && said.matches(MADE_AGAIN).count() == 1, "{words:?}: {said}");
        assert!(!place.good(&words).1.contains(MADE_AGAIN));
    }
    flip(&place.file(), middle);
    let words = ["export", &place.recording, "--to", "recording", "-o", &part];
    is_told(place.good(&words).1.lines().next().unwrap(), FILE);
    assert_eq!(place.good(&["sql", &part, "--csv", SUMS]).0, place.sql(SUMS).0);
    // There is nothing that an excerpt's tables could be made again of.
    let file = Path::new(&part).join("tables").join(FILE);
    flip(&file, fs::read(&file).unwrap().len() / 2);
    let copy = place.dir.path().join("copy.transect").display().to_string();
    for words in [
        &["sql", &part, SUMS][..],
        &["report", &part],
        &["export", &part, "--to", "recording", "-o", &copy],
    ] {
        let output = place.run(words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && said.contains("excerpt"), "{words:?}: {said}");
        assert!(said.contains(FILE), "{words:?}: {said}");
    }
}

#[test]
fn tables_of_other_programs_are_read_with_a_note() {
    let place = Place::new();
    let whole = place.sql(SUMS).0;
    let folder = place.dir.path().join("own");
    fs::create_dir(&folder).unwrap();
    fs::rename(place.tables(), folder.join("tables")).unwrap();
    let folder = folder.display().to_string();
    let words = ["sql", &folder, "--csv", SUMS];
    assert_eq!(place.good(&words), (whole.clone(), String::new()), "still those that were written");
    for name in ["stamp.json", "checksums.bin"] {
        fs::remove_file(Path::new(&folder).join("tables").join(name)).unwrap();
    }
    let (answer, said) = place.good(&words);
    assert_eq!((answer, said.lines().count()), (whole, 1));
    assert!(said.contains("not verified"), "{said}");
}

/// What the sources lost is reported with every answer, not only with the first.
#[test]
fn losses_of_the_sources_are_reported_with_every_query() {
    let dir = tempfile::tempdir().unwrap();
    let recording = pair(dir.path());
    let guest = Path::new(&recording).join("guest-pair-guest.dat");
    let bytes = fs::read(&guest).unwrap();
    fs::write(&guest, [&bytes[..40], &[7; 4000]].concat()).unwrap();
    let place = Place { dir, recording };
    let (answer, said) = place.sql(SUMS);
    assert!(said.contains("guest-pair-guest.dat: source skipped"), "{said}");
    assert_eq!(place.sql(SUMS), (answer, said));
}

#[test]
fn page_gets_an_error_that_names_the_file_and_then_the_right_answer() {
    let place = Place::new();
    let whole = place.sql(SUMS).0.lines().count() - 1;
    let size = fs::read(place.file()).unwrap().len();
    // Before the tiles are made.
    flip(&place.file(), size / 2);
    let served = Served::start(place.dir.path(), &[&place.recording]);
    served.ready();
    assert_eq!(served.sql(SUMS).len(), whole);
    drop(served);
    // Behind its back, which only what reads this file finds.
    let served = Served::start(place.dir.path(), &[&place.recording]);
    served.ready();
    flip(&place.file(), size / 2);
    let question = json!({ "sql": SUMS });
    let (status, body) = served.ask("POST", "/api/sql", Some(&question), &served.token());
    let told = String::from_utf8_lossy(&body).into_owned();
    assert!(status == 500 && told.contains(FILE) && told.contains("transect verify"), "{told}");
    served.ready();
    let begun = Instant::now();
    loop {
        let (status, _) = served.ask("POST", "/api/sql", Some(&question), &served.token());
        if status == 200 {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it is never made again");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(served.sql(SUMS).len(), whole);
    assert!(place.sql(SUMS).1.is_empty(), "the tables on disk are whole again");
}

/// A bare file's tables are in the cache, and verified there.
#[test]
fn cached_tables_are_verified_too() {
    let dir = tempfile::tempdir().unwrap();
    let recording = testdata("tracedat/v7-all.dat");
    let place = Place { dir, recording };
    let (whole, _) = place.sql("SELECT state, sum(dur) FROM thread_states GROUP BY 1 ORDER BY 1");
    let tables = place.good(&["tables", &place.recording]).0;
    let file = Path::new(tables.trim()).join("thread_states/machine_id=0/bucket=0.parquet");
    flip(&file, fs::read(&file).unwrap().len() / 2);
    let (answer, said) =
        place.sql("SELECT state, sum(dur) FROM thread_states GROUP BY 1 ORDER BY 1");
    assert_eq!(answer, whole);
    is_told(&said, "thread_states/machine_id=0/bucket=0.parquet");
}
