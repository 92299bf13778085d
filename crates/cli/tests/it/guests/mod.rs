//! Tier `make test-guests`: the binary with guests of its own.

mod platforms {
    mod lttng;
}
