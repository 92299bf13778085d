//! Programs that are running: waiting for their end, and events they were not run for.

use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// Waits until no program runs that began before: they run with preemption off, and the global
/// barrier waits for that (membarrier(2): synchronize_rcu). Where it is refused (nohz_full), a
/// pause far longer than a program must do.
pub(crate) fn quiesce() {
    if membarrier(MembarrierCommand::Global).is_err() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// How often the kernel skipped a program because it was running on that CPU (since 5.12).
#[allow(unsafe_code, reason = "libbpf's C interface, for functions that libbpf-rs lacks")]
pub(crate) fn recursion_misses(fd: std::os::fd::BorrowedFd<'_>) -> Option<u64> {
    use std::os::fd::AsRawFd;
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = u32::try_from(size_of::<libbpf_sys::bpf_prog_info>()).ok()?;
    // SAFETY: the kernel writes at most `bytes` bytes into the structure; zeroed, it asks for no arrays.
    let failed = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            fd.as_raw_fd(),
            std::ptr::from_mut(&mut info).cast(),
            &raw mut bytes,
        )
    };
    (failed == 0).then_some(info.recursion_misses)
}
