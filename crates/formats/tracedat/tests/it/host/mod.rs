//! Tier `make test`: the codec beside trace-cmd.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests report by failing, and print what they skip"
)]

mod trace_cmd;
