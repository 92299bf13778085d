//! Tier `make test`: the agent on this host's own kernel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests report by failing, and print what they skip"
)]

mod compact;
mod tracefs;
