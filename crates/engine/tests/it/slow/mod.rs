//! Tier `make test-guests`: long runs of properties.

use crate::truth::{check_damaged_recordings, check_whole_recordings};

#[test]
fn ten_thousand_whole_recordings_have_the_simulated_states() {
    check_whole_recordings(10_000);
}

#[test]
fn ten_thousand_damaged_recordings_never_contradict_the_whole() {
    check_damaged_recordings(10_000);
}
