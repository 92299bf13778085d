//! Tests on an emulated host, which may die of its emulator.
#![allow(clippy::print_stdout, reason = "what happened belongs in the log of a test run")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::host::KvmHost;

/// How often it is made at most: a host and its guests that die of the emulator twice in one test have been seen.
const TRIES: usize = 3;

/// Makes a test on the host that this process' tests share, and again on another one where that host died meanwhile, a
/// guest of it ended by itself, or something on it never happened: an emulated host or guest may die or hang of its
/// emulator (QEMU's TCG executing code that the kernel has replaced), which says nothing about what is tested. Any other
/// failure stands, and so does the last.
#[expect(clippy::expect_used, reason = "a test that has no host has failed")]
pub fn on_shared_host(test: impl Fn(&'static KvmHost)) {
    for left in (0..TRIES).rev() {
        let host = KvmHost::shared().expect("a host with KVM");
        let Err(failure) = catch_unwind(AssertUnwindSafe(|| test(host))) else { return };
        if left == 0 || !host.has_died() {
            resume_unwind(failure);
        }
        println!("again, for the emulated host or a guest of it died or hung (above)");
    }
}
