//! A bug of ours must not cost its user the terminal.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]
#![allow(clippy::print_stderr, reason = "what was skipped belongs in the log of a test run")]

use std::{
    process::{Command, Output},
    time::{Duration, Instant},
};
use transect_live::{LiveError, Missing, Snapshot, Source};
use transect_top::{Feed, run};

/// Gives a window, then panics.
struct Panics(bool);

impl Source for Panics {
    fn window_ns(&self) -> u64 {
        1_000_000_000
    }

    fn next_edge_ns(&self) -> Option<u64> {
        None
    }

    fn missing(&self) -> Vec<Missing> {
        Vec::new()
    }

    fn take(&mut self) -> Result<Snapshot, LiveError> {
        std::thread::sleep(Duration::from_millis(500));
        assert!(!std::mem::replace(&mut self.0, true), "the bug");
        Ok(Snapshot { dur: 1_000_000_000, ..Snapshot::default() })
    }
}

/// Not a test of its own: what the test below runs in a terminal.
#[test]
#[ignore = "runs in the terminal of the other test"]
fn the_screen_of_a_source_that_panics() {
    let error = run(Feed::Live(Box::new(Panics(false)))).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("a thread of this process panicked"), "{cause}");
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_told() {
    let socket = format!("transect-panic-{}", std::process::id());
    let tmux = |args: &[&str]| -> std::io::Result<Output> {
        Command::new("tmux").env_remove("TMUX").args(["-L", &socket]).args(args).output()
    };
    let command = format!(
        "{} --ignored --nocapture --exact host::panic::the_screen_of_a_source_that_panics; \
         stty -a | tr ' ' '\\n' | grep -xE -e '-?(icanon|echo);?' | xargs echo MODES; sleep 60",
        std::env::current_exe().unwrap().display()
    );
    let new = ["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", &command];
    if tmux(&new).is_err() {
        eprintln!("skipped: no tmux here");
        return;
    }
    let (begun, mut was_shown) = (Instant::now(), false);
    let screen = loop {
        let screen = tmux(&["capture-pane", "-p"]).unwrap().stdout;
        let screen = String::from_utf8_lossy(&screen).into_owned();
        was_shown |= screen.contains("LIVE") && screen.contains("WAIT%");
        if screen.contains("MODES") || begun.elapsed() > Duration::from_secs(30) {
            break screen;
        }
        std::thread::sleep(Duration::from_millis(30));
    };
    tmux(&["kill-server"]).unwrap();
    assert!(was_shown, "{screen}");
    assert!(screen.contains("the bug"), "{screen}");
    assert!(screen.contains("MODES icanon echo"), "{screen}");
    assert!(screen.contains("1 passed") && !screen.contains("WAIT%"), "{screen}");
}
