//! Memory of the C library's allocator.
//!
//! glibc has up to eight arenas for each CPU, and each keeps what its threads have freed: after 200 clients hundreds of MB.
//! Fewer arenas would have the thread that takes windows wait for clients' threads, which give way to it.
#![allow(unsafe_code, reason = "malloc_trim(3)")]

/// Gives free memory back to the system.
#[cfg(target_env = "gnu")]
pub(super) fn give_back() {
    // SAFETY: releases pages of free blocks, each arena's under its lock.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back() {}
