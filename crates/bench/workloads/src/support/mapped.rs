//! Mapped memory: of a file to read, or anonymous and private.
#![allow(unsafe_code, reason = "memory maps")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use std::{ffi::c_void, fs::File, io, os::fd::AsFd, ptr, slice};

/// A private mapping of whole pages; its length a multiple of 8.
#[derive(Debug)]
pub(crate) struct Mapped {
    at: *mut c_void,
    bytes: usize,
}

impl Mapped {
    /// A file, to be read; as much of it as there are whole pages.
    pub(crate) fn file(file: &File) -> io::Result<Self> {
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let bytes = bytes / rustix::param::page_size() * rustix::param::page_size();
        let flags = MapFlags::PRIVATE;
        // SAFETY: a new mapping at an address of the kernel's choice, inside the file.
        let at = unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ, flags, file.as_fd(), 0)? };
        Ok(Self { at, bytes })
    }

    /// Memory in pages of the ordinary size, untouched.
    pub(crate) fn anonymous(bytes: usize) -> io::Result<Self> {
        let bytes = bytes.next_multiple_of(rustix::param::page_size());
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice.
        let at = unsafe { mmap_anonymous(ptr::null_mut(), bytes, rights, MapFlags::PRIVATE)? };
        let mapped = Self { at, bytes };
        // SAFETY: the mapping made above. A kernel without huge pages refuses it, and there are none.
        let _ = unsafe { madvise(at, bytes, Advice::LinuxNoHugepage) };
        Ok(mapped)
    }

    /// What is there.
    pub(crate) fn words(&self) -> &[u64] {
        // SAFETY: mapped and readable for as long as `self` lives; page-aligned; any bits are a number. A file that is
        // mapped is the job's own, in a folder that nobody else writes to.
        unsafe { slice::from_raw_parts(self.at.cast(), self.bytes / 8) }
    }

    /// Writes a number into every page, from the first to the last.
    pub(crate) fn touch(&mut self) {
        let page = rustix::param::page_size();
        for offset in (0..self.bytes).step_by(page) {
            // SAFETY: inside the mapping, aligned, and borrowed by nobody else; only anonymous ones are writable, which
            // is what the only caller made.
            unsafe { self.at.cast::<u8>().add(offset).cast::<u64>().write_volatile(1) };
        }
    }

    /// Gives all pages back; the next touch of each is a page fault again.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        // SAFETY: this value's own mapping, and no borrow of it: pages become zeros.
        unsafe { madvise(self.at, self.bytes, Advice::LinuxDontNeed)? };
        Ok(())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping this value owns; borrows of it have ended.
        let _ = unsafe { munmap(self.at, self.bytes) };
    }
}
