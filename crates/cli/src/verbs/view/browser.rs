//! Opens the browser, if there is one.

use std::process::{Command, Stdio};

/// Opens an address in the user's browser; where there is none, the printed address is what there
/// is, so nothing is told.
pub(super) fn open(url: &str) {
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if !has_screen {
        return;
    }
    let opened = Command::new("xdg-open")
        .arg(url)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    if let Ok(mut child) = opened {
        // It ends when it has told the browser; without this it would stay as a zombie.
        std::thread::spawn(move || child.wait());
    }
}
