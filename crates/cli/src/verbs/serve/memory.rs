//! Memory of the C library's allocator.
//!
//! glibc has up to eight arenas for each CPU, and each keeps what its threads have freed: after 200 clients hundreds of MB.
#![allow(unsafe_code, reason = "mallopt(3) and malloc_trim(3)")]

/// Has few arenas, and large blocks mapped for themselves, so that they are given back when they are freed. Call it before
/// there are other threads.
#[cfg(target_env = "gnu")]
pub(super) fn keep_little() {
    /// Arenas besides the main one.
    const ARENAS: i32 = 2;
    /// Bytes from which on a block is mapped for itself. Set, it does not grow with the blocks that are freed.
    const LARGE: i32 = 128 << 10;
    // SAFETY: both set a number of the allocator under its lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, ARENAS);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Gives free memory back to the system.
#[cfg(target_env = "gnu")]
pub(super) fn give_back() {
    // SAFETY: releases pages of free blocks under the locks of the arenas.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn keep_little() {}

#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back() {}
