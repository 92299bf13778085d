//! Tier `make test-guests`: the static agent in guests that QEMU emulates.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests report by failing, and print what they skip"
)]

mod tcg {
    mod compact;
    mod session;
}
