//! `transect top` as people use it: in a real terminal (tmux's), with keys, sizes and signals.
#![allow(clippy::unwrap_used, reason = "tests report by failing")]
#![allow(clippy::print_stderr, reason = "what was skipped belongs in the log of a test run")]

use crate::record_support::{Scratch, can_record_compact};
use std::{
    fmt::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

/// A tmux server of its own with one window, gone with the test.
struct Tmux {
    socket: String,
}

impl Tmux {
    /// Runs a shell command in a terminal of that size. None where there is no tmux.
    fn start(name: &str, width: u16, height: u16, command: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").stdout(Stdio::null()).status().is_err() {
            eprintln!("skipped: no tmux here");
            return None;
        }
        let tmux = Tmux { socket: format!("transect-{}-{name}", std::process::id()) };
        let (width, height) = (width.to_string(), height.to_string());
        // What was said last stays to be read.
        let command = format!("{command}; sleep 600");
        let args = ["-f", "/dev/null", "new-session", "-d", "-x", &width, "-y", &height, &command];
        let out = tmux.run(&args);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Some(tmux)
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new("tmux")
            .env_remove("TMUX")
            .env_remove("NO_COLOR")
            .args(["-L", &self.socket])
            .args(args)
            .output()
            .unwrap()
    }

    fn keys(&self, keys: &[&str]) {
        assert!(self.run(&[&["send-keys"], keys].concat()).status.success());
    }

    fn resize(&self, width: u16, height: u16) {
        let (width, height) = (width.to_string(), height.to_string());
        assert!(self.run(&["resize-window", "-x", &width, "-y", &height]).status.success());
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.run(&["capture-pane", "-p"]).stdout).into_owned()
    }

    /// Waits until the screen is as it should be, and gives it.
    fn wait(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return screen;
            }
            assert!(Instant::now() < until, "{what} did not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

fn transect(args: &str) -> String {
    format!("env LC_ALL=C.UTF-8 {} {args}", env!("CARGO_BIN_EXE_transect"))
}

/// The command, then what it left of the terminal.
fn and_after(command: &str) -> String {
    let mut line = format!("{command}; echo \"ENDED $?\"; ");
    line.write_str("stty -a | tr ' ' '\\n' | grep -xE -e '-?(icanon|echo);?' | xargs echo MODES")
        .unwrap();
    line
}

/// The terminal is as it was: the first screen, with echo and lines.
fn expect_restored(screen: &str, code: i32) {
    assert!(screen.contains(&format!("ENDED {code}")), "{screen}");
    let modes = screen.lines().find(|line| line.starts_with("MODES")).unwrap_or_default();
    assert_eq!(modes.replace(';', ""), "MODES icanon echo", "{screen}");
    assert!(!screen.contains("WAIT%"), "the other screen is still there:\n{screen}");
}

#[test]
fn keys_and_sizes_change_what_is_shown() {
    if !can_record_compact() {
        return;
    }
    let command = and_after(&transect("top --interval 200ms"));
    let Some(tmux) = Tmux::start("keys", 80, 24, &command) else { return };
    // A terminal may be asked while it draws: what is all there is waited for.
    tmux.wait("the first window", |s| {
        let texts = ["LIVE", "WAIT%▼", "cost ", "lost 0"];
        texts.iter().all(|text| s.contains(text))
            && s.lines().any(|line| line.starts_with("transect top"))
    });
    tmux.keys(&["c"]);
    tmux.wait_for("› CPU 0");
    tmux.keys(&["c"]);
    if std::thread::available_parallelism().unwrap().get() > 1 {
        tmux.wait_for("› CPU 1");
    }
    tmux.resize(40, 10);
    tmux.wait("columns left out", |s| {
        s.contains(" columns")
            && s.contains("CPU%")
            && s.lines().count() <= 10
            && s.lines().all(|line| line.chars().count() <= 40)
    });
    tmux.resize(120, 40);
    tmux.wait_for("? help  / filter");
    tmux.keys(&["Escape"]);
    tmux.wait("the way back", |s| s.lines().nth(1).is_some_and(|line| !line.contains('›')));
    tmux.keys(&["/", "n", "o", "s", "u", "c", "h", "Enter"]);
    tmux.wait_for("matches the filter");
    tmux.keys(&["Escape"]);
    tmux.wait("all rows", |s| !s.contains("matches the filter"));
    tmux.keys(&["Space"]);
    tmux.wait_for("PAUSED");
    tmux.keys(&["Left"]);
    tmux.wait("an older window", |s| s.contains("PAUSED") && !s.contains("(-0s)"));
    tmux.keys(&["Space"]);
    tmux.wait_for("LIVE");
    tmux.keys(&["m"]);
    tmux.wait_for("net_durations");
    tmux.keys(&["q"]);
    tmux.wait("the list", |s| s.contains("WAIT%▼"));
    tmux.keys(&["q"]);
    tmux.wait_for("MODES");
    expect_restored(&tmux.screen(), 0);
}

#[test]
fn the_terminal_is_given_back_to_whoever_ends_it() {
    if !can_record_compact() {
        return;
    }
    let scratch = Scratch::new();
    let pid_file = scratch.path("pid").display().to_string();
    // The shell's number is that of the program that takes its place.
    let command = format!("sh -c 'echo $$ > {pid_file}; exec {}'", transect("top"));
    for (name, ends) in [("term", "TERM"), ("int", "C-c"), ("hup", "HUP")] {
        let Some(tmux) = Tmux::start(name, 80, 24, &and_after(&command)) else { return };
        tmux.wait_for("LIVE");
        if ends == "C-c" {
            tmux.keys(&["C-c"]);
        } else {
            signal(&pid_file, ends);
        }
        tmux.wait_for("MODES");
        expect_restored(&tmux.screen(), 0);
    }
}

fn signal(pid_file: &str, signal: &str) {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    assert!(Command::new("kill").args(["-s", signal, pid.trim()]).status().unwrap().success());
}

#[test]
fn it_stops_and_goes_on_as_the_shell_says() {
    if !can_record_compact() {
        return;
    }
    let Some(tmux) = Tmux::start("stop", 80, 24, "PS1='SHELL ' bash --norc -i") else { return };
    tmux.wait_for("SHELL");
    tmux.keys(&[&transect("top"), "Enter"]);
    tmux.wait_for("LIVE");
    tmux.keys(&["C-z"]);
    tmux.wait("the shell's screen", |s| s.contains("Stopped") && !s.contains("WAIT%"));
    tmux.keys(&["fg", "Enter"]);
    // By itself: no key is pressed.
    tmux.wait("the screen again", |s| s.contains("LIVE") && s.contains("WAIT%▼"));
    tmux.keys(&["q"]);
    tmux.wait("the shell again", |s| s.trim_end().ends_with("SHELL"));
}

#[test]
fn who_may_not_count_is_told_in_one_line() {
    if !can_record_compact() {
        return;
    }
    let no_root = "setpriv --bounding-set=-all --inh-caps=-all --no-new-privs";
    // Root without capabilities may still read the trace buffers.
    let command = and_after(&format!("{no_root} {}", transect("top --source bpf")));
    let Some(tmux) = Tmux::start("noroot", 100, 24, &command) else { return };
    let screen = tmux.wait_for("MODES");
    if screen.contains("setpriv: ") {
        eprintln!("skipped: no setpriv here");
        return;
    }
    assert!(screen.starts_with("transect: cannot observe this host"), "{screen}");
    expect_restored(&screen, 1);
}

#[test]
fn without_a_terminal_it_says_what_to_do() {
    let out = Command::new(env!("CARGO_BIN_EXE_transect"))
        .arg("top")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(out.status.code(), Some(1));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("not a terminal: use --once --json"), "{said}");
}

/// A log is written, replayed, and cut.
#[test]
fn a_log_is_replayed_with_the_same_keys() {
    let log = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/succeed/live/nested.jsonl")
        .canonicalize()
        .unwrap();
    let scratch = Scratch::new();
    let text = std::fs::read(&log).unwrap();
    std::fs::write(scratch.path("cut.jsonl"), &text[..text.len() - 500]).unwrap();
    let cut = scratch.path("cut.jsonl").display().to_string();
    let command = and_after(&transect(&format!("top {cut}")));
    let Some(tmux) = Tmux::start("replay", 100, 24, &command) else { return };
    tmux.wait("the log's first window", |s| {
        let texts = ["LOG 1/6", "ends inside a window", "starved", "% greedy"];
        texts.iter().all(|text| s.contains(text))
    });
    tmux.keys(&["Right"]);
    tmux.wait_for("LOG 2/6");
    tmux.keys(&["Space"]);
    tmux.wait_for("LOG 6/6");
    tmux.keys(&["q"]);
    tmux.wait_for("MODES");
    expect_restored(&tmux.screen(), 0);
}
