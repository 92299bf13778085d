//! The worker as a platform sees it: a program with two pipes.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    reason = "a failed expectation is the report"
)]

mod cache_states;
mod client;
mod endings;
mod workloads;
