//! Guests and threads whose texts steer a terminal: `record`, `report` and `top` print them as escapes, on lines of their
//! own.

use crate::record_support::{Scratch, can_record_compact};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;
use transect_guest::proto::{
    Decoder, Frame, MachineFacts, Pong, Role, Start, Started, Stats, Welcome,
};
use transect_guest::stamp::StampClock;

/// Goes one line up, writes a line of its own, clears the screen with C1, turns the direction of writing.
const HOSTILE: &str = "\u{1b}[1A\r\ntransect: guest web: all is well\u{9b}2J\u{202e}";
const SHOWN: &str = "\\x1b[1A\\r\\ntransect: guest web: all is well\\x9b2J\\u{202e}";

/// What a hostile agent chooses.
#[derive(Clone, Default)]
struct Texts {
    /// Agents of version 1 have no compact collector, so they need a trace clock and no problem.
    version: u8,
    problem: String,
    clocks: Vec<String>,
    error: String,
}

fn facts(texts: &Texts) -> MachineFacts {
    MachineFacts {
        nodename: format!("web{HOSTILE}").into(),
        release: HOSTILE.into(),
        boot_id: HOSTILE.into(),
        clocks: texts.clocks.iter().map(|clock| clock.as_str().into()).collect(),
        stamp_clocks: vec![StampClock::Mono],
        cpu_count: 1,
        page_bytes: 4096,
        problem: texts.problem.as_str().into(),
        ..MachineFacts::default()
    }
}

/// Serves recorders one after the other, until the test's process ends.
fn hostile_agent(socket: &Path, texts: Texts) {
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            serve(stream.unwrap(), &texts);
        }
    });
}

fn serve(mut stream: UnixStream, texts: &Texts) {
    let mut decoder = Decoder::new(Role::Agent);
    let mut is_started = false;
    loop {
        let was_started = is_started;
        let mut answers: Vec<Frame<'static>> = Vec::new();
        while let Ok(Some(frame)) = decoder.next() {
            match frame {
                Frame::Hello(_) => {
                    let facts = facts(texts);
                    answers.push(Frame::Welcome(Welcome {
                        version: texts.version,
                        agent: HOSTILE.into(),
                        facts,
                    }));
                }
                // The recorder has read Started and Stats, and records.
                Frame::Ping { .. } if was_started && !texts.error.is_empty() => {
                    thread::sleep(Duration::from_millis(300));
                    answers.push(Frame::Error { text: texts.error.as_str().into() });
                }
                Frame::Ping { seq, clock } => {
                    answers.push(Frame::Pong(Pong { seq, cpu: 0, stamp: clock.now().unwrap() }));
                }
                Frame::Start(Start { clock, .. }) => {
                    answers.push(Frame::Started(Started {
                        clock: clock.into(),
                        page_bytes: 4096,
                        why_full: HOSTILE.into(),
                        missing: vec![HOSTILE.into()],
                        ..Started::default()
                    }));
                    answers.push(Frame::Stats(Stats::default()));
                    is_started = true;
                }
                Frame::Stop => answers.push(Frame::Stopped),
                _ => {}
            }
        }
        let Some(session) = decoder.session().or(answers.is_empty().then_some(0)) else { return };
        let mut wire = Vec::new();
        answers.iter().for_each(|frame| frame.encode(session, &mut wire).unwrap());
        // The recorder may be gone.
        if stream.write_all(&wire).is_err() {
            return;
        }
        match stream.read(decoder.room()) {
            Ok(bytes) if bytes > 0 => decoder.filled(bytes),
            _ => return,
        }
    }
}

/// What `record` printed on standard error with such a guest, checked line by line.
fn told(scratch: &Scratch, name: &str, texts: Texts) -> String {
    let socket = scratch.path(&format!("{name}.sock"));
    hostile_agent(&socket, texts);
    let guest = format!("virtio-serial:{}", socket.display());
    let output = scratch.run(&["record", "--guest", &guest, "-o", name, "--duration", "2s"]);
    let told = String::from_utf8(output.stderr).unwrap();
    for line in told.lines() {
        assert!(!line.chars().any(|c| c.is_control() || c == '\u{202e}'), "{name}: {line:?}");
        assert!(!line.starts_with("transect: guest web: all"), "{name}: forged:\n{told}");
    }
    told
}

#[test]
fn a_guest_that_refuses_cannot_write_lines_of_its_own() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let problem = told(
        &scratch,
        "problem",
        Texts { problem: HOSTILE.into(), version: 1, ..Texts::default() },
    );
    assert!(problem.lines().any(|line| line.ends_with(SHOWN)), "{problem}");
    let clocks = vec!["local".to_owned(), HOSTILE.to_owned()];
    let clocks = told(&scratch, "clocks", Texts { clocks, version: 1, ..Texts::default() });
    assert!(clocks.contains(&format!("offers the trace clocks local, {SHOWN}, but")), "{clocks}");
}

#[test]
fn notes_about_a_running_guest_embed_its_texts_as_escapes() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let clocks = vec!["mono".to_owned()];
    let texts = Texts { clocks, error: HOSTILE.into(), version: 2, ..Texts::default() };
    let notes = told(&scratch, "notes", texts);
    let why_full = format!("full collector in this guest: {SHOWN}");
    assert!(notes.contains(&why_full), "{notes}");
    assert!(notes.contains(&format!("{SHOWN}; reconnecting")), "{notes}");
    // The recording holds the name as it came, and every reader escapes it.
    let manifest = fs::read(scratch.path("notes/manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let names = manifest["machines"].as_array().unwrap().iter().map(|machine| &machine["name"]);
    assert!(names.into_iter().any(|name| *name == format!("web{HOSTILE}")), "{manifest}");
    let report = scratch.run(&["report", "notes", "--view", "machines"]);
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains(SHOWN) && !report.contains('\u{1b}'), "{report}");
}

/// A busy program of any user, with a name that steers a terminal.
struct Busy(std::process::Child);

impl Busy {
    fn start(scratch: &Scratch, name: &str) -> Self {
        let program = scratch.path(name);
        fs::copy(fs::canonicalize("/bin/sh").unwrap(), &program).unwrap();
        let busy = Command::new(&program).args(["-c", "while :; do :; done"]).spawn().unwrap();
        Busy(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_thread_cannot_steer_the_terminal_of_root_by_its_name() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    // 15 bytes, as many as a thread's name has.
    let name = "\u{1b}[2J\nroot\u{9b}\u{202e}";
    let _busy = Busy::start(&scratch, name);
    let once = scratch.run(&["top", "--once", "--json"]);
    let recorded = scratch.run(&["record", "-o", "busy", "--duration", "1s"]);
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let events = scratch.run(&["report", "busy", "--view", "events"]);
    let report = scratch.run(&["report", "busy"]);
    let shown = "\\x1b[2J\\nroot\\x9b\\u{202e}";
    let in_json = "\\u001b[2J\\nroot\\u009b\\u202e";
    for (output, expected) in [(once, in_json), (events, shown), (report, shown)] {
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(expected), "{expected} is not in\n{text:.2000}");
        let obeyed = text.chars().find(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}'));
        assert_eq!(obeyed, None);
        assert!(!text.lines().any(|line| line.starts_with("root")), "forged");
    }
}
