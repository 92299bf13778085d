//! Any bytes on the guest channel, in any pieces: frames or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| transect_guest::proto::fuzz(data));
