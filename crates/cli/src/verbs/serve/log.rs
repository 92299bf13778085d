//! The log: lines on standard error, which journald stamps and keeps.

use crate::terminal;
use std::sync::Arc;

/// Takes lines. A standard error that was closed takes none, and nothing ends for it.
pub(super) fn start() -> Arc<dyn Fn(&str) + Send + Sync> {
    Arc::new(|line: &str| {
        let line = line.lines().collect::<Vec<_>>().join(" ");
        terminal::print_note(&line);
    })
}
