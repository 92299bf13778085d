//! Tier `make test`: the binary on this host's own kernel, as its users run it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests report by failing, and print what they skip"
)]

mod bench;
mod bench_reboots;
mod explain_waits;
mod flame;
mod hostile;
mod hostile_texts;
mod live_findings;
mod loads;
mod namespaces;
mod packets;
mod record_access;
mod record_compact;
pub(crate) mod record_contexts;
mod record_counts;
mod record_endings;
mod record_ends;
mod record_flight;
mod record_settings;
mod record_truth;
mod serve;
mod serve_prometheus;
mod serve_support;
mod top;
mod top_screen;
