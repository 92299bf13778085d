//! Memory of the C library's allocator.
//!
//! glibc has up to eight arenas for each CPU. Each keeps free memory at its end up to a threshold that grows with the blocks
//! that are freed, to 64 MiB, and `malloc_trim` does not release it in any arena but the main one (malloc/malloc.c, 2.36):
//! after 200 clients hundreds of MB. Fewer arenas would have the thread that takes windows wait for clients' threads, which
//! give way to it.
#![allow(unsafe_code, reason = "mallopt(3) and malloc_trim(3)")]

/// Has each arena give back what is free at its end. Call it before there are other threads.
#[cfg(target_env = "gnu")]
pub(super) fn keep_little() {
    /// Free bytes at the end of an arena from which on they are given back.
    const FREE: i32 = 1 << 20;
    /// Bytes from which on a block is mapped for itself. With a threshold of one's own it does not grow by itself.
    const LARGE: i32 = 4 << 20;
    // SAFETY: both set a number of the allocator under its lock.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, FREE);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Gives free memory inside of the arenas back to the system.
#[cfg(target_env = "gnu")]
pub(super) fn give_back() {
    // SAFETY: releases pages of free blocks, each arena's under its lock.
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(not(target_env = "gnu"))]
pub(super) fn keep_little() {}

#[cfg(not(target_env = "gnu"))]
pub(super) fn give_back() {}
