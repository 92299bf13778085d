//! The report's faces over made-up results: what they look like (golden copies), and that nothing breaks them.
//!
//! `UPDATE_GOLDEN=1 cargo test -p transect-bench-report --test it report` writes the golden copies anew, to be read before they are
//! committed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests report by failing")]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up reports are small and their numbers known"
)]

mod any;
mod html;
mod rows;
mod sample;
mod text;

use std::{fs, path::PathBuf};

/// Compares with a golden copy, or writes it.
fn assert_golden(name: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).unwrap();
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    if found == expected {
        return;
    }
    let line = found.lines().zip(expected.lines()).position(|(found, expected)| found != expected);
    let at = line.unwrap_or_else(|| found.lines().count().min(expected.lines().count()));
    let show =
        |text: &str| text.lines().nth(at).unwrap_or("(end)").chars().take(400).collect::<String>();
    panic!(
        "{name} line {}:\n   found: {}\nexpected: {}\n(UPDATE_GOLDEN=1 writes it anew)",
        at + 1,
        show(found),
        show(&expected)
    );
}
