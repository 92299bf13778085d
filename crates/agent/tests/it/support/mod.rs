//! The static agent, built when a test needs it: what `cargo test` builds is linked dynamically
//! and would not start in a guest that holds nothing but busybox.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "helpers of tests")]

pub(crate) mod kept;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The agent as it is shipped; `None`, with a line that says so, on machines it cannot be built for.
pub(crate) fn static_agent() -> Option<PathBuf> {
    if !cfg!(all(target_arch = "x86_64", target_env = "gnu")) {
        eprintln!("skipped: test guests are x86-64");
        return None;
    }
    // Where `make agent` builds it, or beside target/debug/transect-agent.
    let target_dir = std::env::var_os("TRANSECT_BIN_DIR").map_or_else(
        || Path::new(env!("CARGO_BIN_EXE_transect-agent")).ancestors().nth(2).unwrap().to_owned(),
        PathBuf::from,
    );
    let status = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--profile", "agent", "-p", "transect-agent"])
        .args(["--target", TARGET])
        .env("CARGO_TARGET_DIR", &target_dir)
        .env_remove("CARGO_BUILD_BUILD_DIR")
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(status.success(), "the static agent does not build");
    Some(target_dir.join(TARGET).join("agent/transect-agent"))
}
