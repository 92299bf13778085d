//! `transect top` over a log, in a terminal of tmux's.

use anyhow::{Result, ensure};
use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

/// The same, going back window by window until this text is there.
pub(crate) fn shown_back(log: &Path, keys: &[&str], text: &str) -> Result<Option<String>> {
    look(log, keys, Some("h"), |screen| screen.contains(text))
}

/// What the screen shows of a log's last window after these keys. None where there is no tmux.
pub(crate) fn shown(
    log: &Path,
    keys: &[&str],
    until: impl Fn(&str) -> bool,
) -> Result<Option<String>> {
    look(log, keys, None, until)
}

/// After the keys, this one again and again.
fn look(
    log: &Path,
    keys: &[&str],
    again: Option<&str>,
    until: impl Fn(&str) -> bool,
) -> Result<Option<String>> {
    // A server of its own: tests of one process look at the same time.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let socket = format!("transect-e2e-{}-{number}", std::process::id());
    let tmux = |args: &[&str]| Command::new("tmux").args(["-L", &socket]).args(args).output();
    let command = format!(
        "env LC_ALL=C.UTF-8 {} top {}; sleep 60",
        transect_e2e::transect()?.display(),
        log.display()
    );
    let new = ["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", &command];
    if tmux(&new).is_err() {
        println!("skipped: no tmux here");
        return Ok(None);
    }
    let (begun, mut is_open) = (Instant::now(), false);
    let shown = loop {
        let screen = tmux(&["capture-pane", "-p"])?.stdout;
        let screen = String::from_utf8_lossy(&screen).into_owned();
        if !is_open && screen.contains("LOG 1/") {
            is_open = true;
            tmux(&[&["send-keys", "L"], keys].concat())?;
        } else if let (true, false, Some(key)) = (is_open, until(&screen), again) {
            tmux(&["send-keys", key])?;
            std::thread::sleep(Duration::from_millis(150));
        }
        if (is_open && until(&screen)) || begun.elapsed() > Duration::from_secs(30) {
            break screen;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    tmux(&["kill-server"])?;
    ensure!(is_open && until(&shown), "it does not show it:\n{shown}");
    Ok(Some(shown))
}
