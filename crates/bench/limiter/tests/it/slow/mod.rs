//! Tier `make test-guests`: the limiter of real loads.

mod limiter;
