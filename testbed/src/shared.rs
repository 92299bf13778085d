//! The host that the tests of a process share.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::host::KvmHost;

/// Runs a test on the host that the tests of this process share. If the test fails and the host or a guest of it has died
/// or hung, the output of the test reports that: an emulated machine may do so of its emulator (QEMU's TCG executing code
/// that the kernel has replaced). The runner then makes the test again, in another process and so on another host. Any
/// other failure stands.
#[expect(clippy::expect_used, reason = "a test that has no host has failed")]
pub fn on_shared_host(test: impl FnOnce(&'static KvmHost)) {
    let host = KvmHost::shared().expect("a host with KVM");
    let Err(failure) = catch_unwind(AssertUnwindSafe(|| test(host))) else { return };
    host.report_if_dead();
    resume_unwind(failure);
}
