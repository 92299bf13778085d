//! Tier `make test-guests`: the binary with guests of its own.

#[path = "../bench_support/mod.rs"]
mod bench_support;
mod platforms {
    mod lttng;
}
