//! Tier `make test-guests`: the limiter of real loads, and the method on simulated machines that drift.

mod limiter;
mod simulate;
