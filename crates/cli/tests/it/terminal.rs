//! Names that steer a terminal, in every output that a terminal can get: nothing of them is obeyed, and no line is forged.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "tests report by failing"
)]

use crate::view_support;
use serde_json::{Value, json};
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use transect_compact::{BLOCK_MAGIC, Compact, Names, names_blocks};
use transect_engine::synthetic::Plan;
use transect_model::event::Comm;

/// Clears the screen, begins a sequence with one byte of C1, and turns the direction of writing.
const EVIL: &str = "\u{1b}[2J\u{9b}\u{202e}";
/// Goes one line up and writes a line of its own.
const FORGER: &str = "\u{1b}[1A\nroot: ";
/// How both are shown.
const EVIL_SHOWN: &str = "\\x1b[2J\\x9b\\u{202e}";
const FORGER_SHOWN: &str = "\\x1b[1A\\nroot: ";

fn replaced(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len(), "the file's layout stays");
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(from.len()).position(|w| w == from.as_bytes()) {
        bytes[at + found..at + found + to.len()].copy_from_slice(to.as_bytes());
        at += found + to.len();
    }
    bytes
}

/// A recording of a kernel whose users chose such names, and its trace.dat.
struct Hostile {
    dir: tempfile::TempDir,
    dat: PathBuf,
    recording: PathBuf,
}

impl Hostile {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clean = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../testdata/succeed/tracedat/v7-none.dat");
        let bytes = replaced(&fs::read(clean).unwrap(), "trace-cmd", EVIL);
        let dat = dir.path().join("evil.dat");
        fs::write(&dat, replaced(&bytes, "rcu_preempt", FORGER)).unwrap();
        let recording = dir.path().join("evil.transect");
        let hostile = Hostile { dir, dat, recording };
        hostile.import();
        hostile
    }

    fn import(&self) {
        let words = ["import", self.dat.to_str().unwrap(), "-o", self.recording.to_str().unwrap()];
        let output = self.plain(&words);
        expect_safe("import", &[output.stdout, output.stderr].concat());
        // What a guest is called, and who ran what, comes from elsewhere, too.
        let path = self.recording.join("manifest.json");
        let mut manifest: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        manifest["machines"][0]["name"] = json!(format!("web{EVIL}{FORGER}"));
        manifest["machines"][0]["uname"] = json!(format!("Linux {FORGER}"));
        manifest["command_line"] = json!(["record", EVIL, FORGER]);
        manifest["notes"] = json!([format!("a note{FORGER}")]);
        manifest["ended_by"] = json!(format!("a signal{FORGER}"));
        let _ = manifest.as_object_mut().unwrap().remove("checksum");
        let text = serde_json::to_string_pretty(&manifest).unwrap();
        fs::write(&path, transect_integrity::seal(&text)).unwrap();
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("XDG_CACHE_HOME", self.dir.path()).env("XDG_STATE_HOME", self.dir.path());
        command.env("NO_COLOR", "1").env("TERM", "xterm").stdin(Stdio::null());
        command
    }

    /// The program with standard output in a pipe.
    fn plain(&self, words: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_transect")).args(words).output().unwrap()
    }

    /// What the program writes to a terminal; nothing where no terminal can be made.
    fn on_terminal(&self, words: &[&str]) -> Option<Vec<u8>> {
        let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        let line = format!("{} {}", quoted(env!("CARGO_BIN_EXE_transect")), words.join(" "));
        let output = self.command("script").args(["-qec", &line, "/dev/null"]).output();
        let Ok(output) = output else {
            eprintln!("skipped: no script(1) here");
            return None;
        };
        // The terminal ends lines with CR and LF. The child's end is shown as its input's.
        let bytes = replaced(&output.stdout, "^D\u{8}\u{8}", "    ");
        Some(String::from_utf8_lossy(&bytes).replace("\r\n", "\n").into_bytes())
    }

    /// The same of a program that prompts, with these lines typed one after the other: each once the text beside it
    /// and a prompt behind it are there. What is typed before its prompt is lost.
    fn typed_on_terminal(&self, words: &[&str], lines: &[(&str, &str)]) -> Option<String> {
        let line = [&[env!("CARGO_BIN_EXE_transect")], words].concat().join(" ");
        let mut command = self.command("script");
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("skipped: no script(1) here");
            return None;
        };
        let mut keys = child.stdin.take().unwrap();
        let mut screen = child.stdout.take().unwrap();
        let (mut shown, mut piece) = (Vec::new(), [0; 4096]);
        for (answer, line) in lines {
            let before = shown.len();
            let is_prompted = |shown: &[u8]| {
                let text = String::from_utf8_lossy(&shown[before..]);
                text.split_once(answer).is_some_and(|(_, rest)| rest.contains("sql> "))
            };
            while !is_prompted(&shown) {
                let bytes = screen.read(&mut piece).unwrap();
                assert!(bytes > 0, "{}", String::from_utf8_lossy(&shown));
                shown.extend_from_slice(&piece[..bytes]);
            }
            keys.write_all(format!("{line}\r").as_bytes()).unwrap();
        }
        screen.read_to_end(&mut shown).unwrap();
        child.wait().unwrap();
        Some(String::from_utf8_lossy(&shown).into_owned())
    }

    fn recording(&self) -> &str {
        self.recording.to_str().unwrap()
    }
}

/// Neither ASCII's controls nor Unicode's: written down here once more, so that the program's list is not its own judge.
fn is_obeyed(c: char) -> bool {
    let bidi = matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c != '\n' && (c.is_control() || bidi || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}'))
}

fn expect_safe(what: &str, bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).unwrap_or_else(|_| panic!("{what}: no UTF-8"));
    if let Some(line) = text.lines().find(|line| line.chars().any(is_obeyed)) {
        panic!("{what}: a terminal obeys {line:?}");
    }
    let forged = text.lines().find(|line| line.starts_with("root:"));
    assert_eq!(forged, None, "{what}: forged\n{text}");
    text
}

const VIEWS: [&str; 15] = [
    "summary",
    "recording",
    "machines",
    "vcpus",
    "domains",
    "cpus",
    "exits",
    "antagonists",
    "threads",
    "wakeups",
    "windows",
    "lost",
    "log",
    "cost",
    "events",
];

#[test]
fn every_view_of_the_report_shows_hostile_names_as_escapes() {
    let hostile = Hostile::new();
    let mut all = String::new();
    for view in VIEWS {
        let words = ["report", hostile.recording(), "--view", view];
        // For people, whatever it goes to.
        let output = hostile.plain(&words);
        assert!(output.status.success(), "{view}: {}", String::from_utf8_lossy(&output.stderr));
        all += &expect_safe(view, &output.stdout);
        if let Some(shown) = hostile.on_terminal(&words) {
            all += &expect_safe(view, &shown);
        }
    }
    assert!(all.contains(EVIL_SHOWN) && all.contains(FORGER_SHOWN), "{all}");
    let threads = hostile.plain(&["report", hostile.recording(), "--view", "threads"]);
    assert!(String::from_utf8_lossy(&threads.stdout).contains(EVIL_SHOWN));
}

/// A recording of the compact collector whose threads have such names, one or the other.
fn compact_of_hostile_threads(dir: &Path) -> String {
    let plan = Plan { events: 400, vms: 1, cpus: 2, vcpus: 1, ..Plan::default() };
    let bytes = plan.write_compact(Vec::new()).unwrap();
    let mut names = Names::default();
    for (at, (tid, _)) in Compact::parse(&bytes).unwrap().names().threads().enumerate() {
        let name = if at % 2 == 0 { EVIL } else { FORGER };
        names.thread(tid, Comm::new(name.as_bytes()));
    }
    // Behind the block with the names that the plan chose.
    let starts = bytes.windows(4).enumerate().filter(|(_, magic)| *magic == BLOCK_MAGIC);
    let second = starts.map(|(at, _)| at).nth(1).unwrap();
    let bytes = [&bytes[..second], &names_blocks(&names), &bytes[second..]].concat();
    view_support::compact(dir, "compact.transect", &bytes)
}

#[test]
fn events_of_hostile_threads_are_lines_without_escape_sequences() {
    let hostile = Hostile::new();
    let recording = compact_of_hostile_threads(hostile.dir.path());
    let words = ["report", &recording, "--view", "events"];
    let output = hostile.plain(&words);
    let plain = expect_safe("events", &output.stdout);
    // Each line is an event: none was forged, and all but the idle thread's have a hostile name.
    assert!(plain.lines().count() >= 400, "{plain}");
    assert!(plain.matches(EVIL_SHOWN).count() > 20, "{plain}");
    assert!(plain.matches(FORGER_SHOWN).count() > 20, "{plain}");
    for form in [&[][..], &["--csv"], &["--json"]] {
        let words = [&words[..], form].concat();
        let Some(shown) = hostile.on_terminal(&words) else { return };
        let shown = expect_safe(&words.join(" "), &shown);
        assert!(shown.lines().count() >= 400, "{shown}");
    }
}

#[test]
fn data_is_escaped_on_a_terminal_and_unchanged_in_a_pipe() {
    let hostile = Hostile::new();
    let sql = "SELECT name FROM threads ORDER BY name";
    let recording = hostile.recording();
    let csv = hostile.plain(&["sql", recording, "--csv", sql]);
    let csv = String::from_utf8(csv.stdout).unwrap();
    assert!(csv.contains(EVIL) && csv.contains(FORGER), "{csv:?}");
    let report = hostile.plain(&["report", recording, "--view", "threads", "--csv"]);
    assert!(String::from_utf8(report.stdout).unwrap().contains(EVIL));
    let ways: [&[&str]; 11] = [
        &["sql", recording, sql],
        &["sql", recording, "--csv", sql],
        &["sql", recording, "--json", sql],
        &["sql", recording, "--jsonl", sql],
        &["sql", recording, "--csv", "SELECT name, name || name FROM machines"],
        &["report", recording, "--view", "threads", "--csv"],
        &["report", recording, "--view", "events", "--csv"],
        &["report", recording, "--view", "events", "--json"],
        &["report", recording, "--json"],
        &["export", recording, "--to", "jsonl", "-o", "-"],
        &["export", recording, "--to", "jsonl", "-o", "/dev/stdout"],
    ];
    for words in ways {
        let Some(shown) = hostile.on_terminal(words) else { return };
        let shown = expect_safe(&words.join(" "), &shown);
        let is_json =
            words.contains(&"--json") || words.contains(&"--jsonl") || words.contains(&"jsonl");
        let escape = if is_json { "\\u001b[2J\\u009b\\u202e" } else { EVIL_SHOWN };
        assert!(shown.contains(escape), "{words:?}: {shown}");
    }
}

#[test]
fn the_prompt_shows_hostile_cells_and_columns_as_escapes() {
    let hostile = Hostile::new();
    let lines = [
        ("", "SELECT name FROM machines;"),
        ("(1 row", ".schema threads"),
        ("machine_id", ".quit"),
    ];
    let shown = hostile.typed_on_terminal(&["sql", hostile.recording()], &lines);
    let Some(shown) = shown else { return };
    assert!(shown.contains(EVIL_SHOWN) && shown.contains("(1 row"), "{shown:?}");
    // The prompt edits its line with sequences of its own.
    assert!(!shown.contains(EVIL) && !shown.contains("\nroot:"), "{shown:?}");
}

#[test]
fn json_says_the_same_escaped_or_not() {
    let hostile = Hostile::new();
    let output = hostile.plain(&["report", hostile.recording(), "--view", "machines", "--json"]);
    let text = expect_safe("report --json in a pipe", &output.stdout);
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["machines"][0]["name"], format!("web{EVIL}{FORGER}"));
}

#[test]
fn binary_formats_are_not_written_to_a_terminal() {
    let hostile = Hostile::new();
    let recording = hostile.recording();
    let ways: [&[&str]; 5] = [
        &["export", recording, "--to", "perfetto", "-o", "-"],
        &["export", recording, "--to", "perfetto", "-o", "/dev/stdout"],
        &["export", recording, "--to", "recording", "-o", "-"],
        &["sql", recording, "--arrow", "-", "SELECT * FROM threads"],
        &["sql", recording, "--parquet", "/dev/stdout", "SELECT * FROM threads"],
    ];
    for words in ways {
        let Some(shown) = hostile.on_terminal(words) else { return };
        let shown = expect_safe(&words.join(" "), &shown);
        assert!(shown.contains("is binary"), "{words:?}: {shown}");
    }
}

#[test]
fn errors_embed_hostile_names_as_escapes_and_stay_one_line() {
    let hostile = Hostile::new();
    let recording = hostile.recording();
    let evil_file = hostile.dir.path().join(format!("no{EVIL}{FORGER}.dat"));
    fs::write(&evil_file, b"no trace").unwrap();
    let evil_file = evil_file.to_str().unwrap();
    let evil_sql = format!("SELECT \"{EVIL}{FORGER}\" FROM threads");
    let runaway = format!("SELECT name FROM \"{FORGER}\"");
    let ways: [&[&str]; 8] = [
        &["report", recording, "--vm", EVIL],
        &["report", evil_file],
        &["report", &format!("{evil_file}.gone")],
        &["import", evil_file, "-o", recording],
        &["doctor", evil_file],
        &["sql", recording, &evil_sql],
        &["sql", recording, &runaway],
        &["export", evil_file, "--to", "jsonl", "-o", "-"],
    ];
    for words in ways {
        let output = hostile.plain(words);
        let what = words.join(" ");
        let told = expect_safe(&what, &[output.stdout, output.stderr].concat());
        assert!(!output.status.success() && !told.is_empty(), "{what}: {told}");
        if let Some(shown) = hostile.on_terminal(words) {
            expect_safe(&what, &shown);
        }
    }
    let doctor = hostile.plain(&["doctor", recording]);
    let doctor = expect_safe("doctor", &[doctor.stdout, doctor.stderr].concat());
    assert!(doctor.contains(&format!("a signal{}", FORGER_SHOWN.trim_end())), "{doctor}");
}
