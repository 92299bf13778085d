//! Tier `make test-guests`: the platforms of the benchmark, each opened, used and closed.

mod platforms {
    mod common;
    mod host;
    mod nested;
    mod remote;
    mod tcg;
    mod xen;
}
