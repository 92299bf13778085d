//! Tier `make test-guests`: the built binaries on emulated hosts and guests.

mod channels;
mod nested;
mod reboots;
mod xen {
    mod explain;
    mod metrics;
    mod record;
    mod requests;
    mod stacks;
}
