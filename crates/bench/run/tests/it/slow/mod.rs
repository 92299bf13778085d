//! Tier `make test-guests`: the method on simulated machines that drift.

mod simulate;
