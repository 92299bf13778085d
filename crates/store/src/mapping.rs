//! One contiguous slice per source: a mapped file, or spools mapped behind a head in memory.
#![allow(unsafe_code, reason = "memory maps")]

use crate::error::{StoreError, io_error};
use procfs::process::Process;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use std::{
    fs::File,
    io,
    ops::Deref,
    os::fd::AsFd,
    path::Path,
    ptr::{self, NonNull},
    slice,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

/// Smaller mappings may stay in memory.
const LARGE_BYTES: usize = 32 << 20;
/// What of mapped files may be resident before it is given back.
const KEEP_BYTES: usize = 64 << 20;
/// Looking over a file's headers brings in sixty gigabytes a second: with every fault its neighbours
/// come (Linux, mm/memory.c `do_fault_around`). So 120 MB come between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Read-only memory that is a file, or several behind one another.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
    mapped_bytes: usize,
    /// From here on there are files, or nothing but zeros; before, a head that is nowhere else.
    files_from: usize,
}

// SAFETY: the memory is read-only for its whole life and owned by this value alone.
unsafe impl Send for Mapping {}
// SAFETY: as above; shared reads of read-only memory do not race.
unsafe impl Sync for Mapping {}

/// A file, or its beginning, at its place behind the head.
pub(crate) struct Piece {
    pub(crate) file: File,
    /// Where it starts in the whole; a multiple of the system's page size.
    pub(crate) at: u64,
    /// How much of the file is meant.
    pub(crate) bytes: u64,
}

impl Mapping {
    /// Maps the whole file at a path, as it is now.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let file = File::open(path).map_err(io_error("open", path))?;
        if !file.metadata().map_err(io_error("look at", path))?.is_file() {
            let not_a_file = io::Error::other("it is not a regular file; name a trace.dat");
            return Err(io_error("map", path)(not_a_file));
        }
        Self::of_file(&file).map_err(io_error("map", path))
    }

    /// Maps a whole file. Should another process shorten it meanwhile, reading behind its new end
    /// ends this process (SIGBUS); nothing of transect shortens a finished file.
    pub(crate) fn of_file(file: &File) -> io::Result<Self> {
        let bytes = to_usize(file.metadata()?.len())?;
        if bytes == 0 {
            return Ok(Mapping {
                at: NonNull::dangling(),
                bytes: 0,
                mapped_bytes: 0,
                files_from: 0,
            });
        }
        // SAFETY: a new mapping at an address of the kernel's choice, read-only; the length is
        // the file's and not zero.
        let at = unsafe {
            mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)?
        };
        Self::owning(at.cast(), bytes, bytes, 0)
    }

    /// `head`, and every piece at its place. The rest reads as zeros.
    pub(crate) fn of_pieces(head: &[u8], pieces: &[Piece]) -> io::Result<Self> {
        let page = rustix::param::page_size();
        let ends = pieces.iter().map(|piece| piece.at.checked_add(piece.bytes));
        let end = ends.chain([u64::try_from(head.len()).ok()]).try_fold(0, |a, b| Some(b?.max(a)));
        let bytes = to_usize(end.ok_or_else(too_large)?)?;
        let mapped_bytes = bytes.max(1).checked_next_multiple_of(page).ok_or_else(too_large)?;
        // SAFETY: a new private anonymous mapping at an address of the kernel's choice.
        let at = unsafe {
            let prot = ProtFlags::READ | ProtFlags::WRITE;
            // Without a reservation: the pieces take its place, untouched pages cost nothing.
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            mmap_anonymous(ptr::null_mut(), mapped_bytes, prot, flags)?
        };
        let files_from = head.len().checked_next_multiple_of(page).ok_or_else(too_large)?;
        let mapping = Self::owning(at.cast(), bytes, mapped_bytes, files_from)?;
        // SAFETY: `head` lies in the mapping made above (its length went into `bytes`), which is
        // still writable and known to nobody else.
        unsafe { ptr::copy_nonoverlapping(head.as_ptr(), mapping.at.as_ptr(), head.len()) };
        for piece in pieces {
            mapping.place(piece, head.len(), page)?;
        }
        // SAFETY: exactly the mapping made above; nothing is written to it from here on.
        unsafe { mprotect(at, mapped_bytes, MprotectFlags::READ)? };
        Ok(mapping)
    }

    fn place(&self, piece: &Piece, head_bytes: usize, page: usize) -> io::Result<()> {
        let (at, bytes) = (to_usize(piece.at)?, to_usize(piece.bytes)?);
        let free = head_bytes.checked_next_multiple_of(page).ok_or_else(too_large)?;
        if !at.is_multiple_of(page) || at < free || at + bytes > self.bytes {
            return Err(io::Error::other(format!(
                "a spool of {bytes} bytes cannot be mapped at {at}: not a page boundary of this machine ({page} bytes)"
            )));
        }
        if piece.file.metadata()?.len() < piece.bytes {
            return Err(io::Error::other("the spool shrank while it was being opened"));
        }
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: MAP_FIXED replaces pages of our own mapping only: `at` is page-aligned and
        // `at + bytes` inside it (checked above); the last page is shared with nothing, because
        // pieces start at page boundaries. Nothing holds references into the mapping yet.
        unsafe {
            let target = self.at.as_ptr().add(at).cast();
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            mmap(target, bytes, ProtFlags::READ, flags, piece.file.as_fd(), 0)?;
        }
        Ok(())
    }

    fn owning(
        at: *mut u8,
        bytes: usize,
        mapped_bytes: usize,
        files_from: usize,
    ) -> io::Result<Self> {
        let at = NonNull::new(at).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Mapping { at, bytes, mapped_bytes, files_from })
    }

    /// Does something that reads mappings once through, and meanwhile gives back the memory of what
    /// was read, again and again: what is read next comes from the page cache or the disk.
    ///
    /// Else a recording of a gigabyte counts as a gigabyte of this process until it has ended, and
    /// in a memory-limited container also as much as that.
    pub fn read_through<T>(mappings: &[&Mapping], work: impl FnOnce() -> T) -> T {
        let large = |mapping: &&&Mapping| mapping.mapped_bytes > LARGE_BYTES;
        let large: Vec<&Mapping> = mappings.iter().filter(large).copied().collect();
        if large.is_empty() {
            return work();
        }
        std::thread::scope(|scope| {
            let (working, done) = mpsc::sync_channel::<()>(0);
            scope.spawn(move || {
                // The program itself is among the files.
                let process = Process::myself().ok();
                let resident = || process.as_ref().and_then(resident_file_bytes);
                let most = resident().map(|bytes| bytes + KEEP_BYTES);
                let much = || most.is_none_or(|most| resident() > Some(most));
                // Until the sender is dropped, however the work ends.
                while done.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                    if much() {
                        large.iter().for_each(|mapping| mapping.forget());
                    }
                }
            });
            let _working = working;
            work()
        })
    }

    /// Gives back the memory of the files' pages.
    fn forget(&self) {
        let from = self.files_from.min(self.mapped_bytes);
        // SAFETY: inside our own mapping, and only where it is files mapped shared and read-only, or
        // untouched zeros: pages that are looked at again come back with the same bytes, so that
        // borrows of them stay what they are.
        let _ = unsafe {
            let at = self.at.as_ptr().add(from).cast();
            madvise(at, self.mapped_bytes - from, Advice::LinuxDontNeed)
        };
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `bytes` bytes from `at` are mapped, readable and initialised for as long as
        // `self` lives (or `bytes` is 0 and `at` dangling, as slices allow).
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.mapped_bytes > 0 {
            // SAFETY: exactly the mapping this value owns; borrows of it have ended.
            let _ = unsafe { munmap(self.at.as_ptr().cast(), self.mapped_bytes) };
        }
    }
}

/// What a process has of mapped files in memory (Linux, fs/proc/task_mmu.c `task_statm`).
fn resident_file_bytes(process: &Process) -> Option<usize> {
    let statm = process.statm().ok()?;
    usize::try_from(statm.shared).ok()?.checked_mul(rustix::param::page_size())
}

fn to_usize(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| too_large())
}

fn too_large() -> io::Error {
    io::Error::other("larger than this machine's address space")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn pieces_lie_where_they_belong_and_the_rest_is_zero() {
        let page = rustix::param::page_size();
        let one = vec![1u8; page];
        let two = vec![2u8; 2 * page + 100];
        let pieces = [
            Piece { file: file_of(&one), at: page as u64, bytes: page as u64 },
            Piece { file: file_of(&two), at: 3 * page as u64, bytes: 2 * page as u64 },
        ];
        let mapping = Mapping::of_pieces(b"head", &pieces).unwrap();
        assert_eq!(mapping.len(), 5 * page);
        assert_eq!(&mapping[..4], b"head");
        assert!(mapping[4..page].iter().all(|b| *b == 0));
        assert!(mapping[page..2 * page].iter().all(|b| *b == 1));
        assert!(mapping[2 * page..3 * page].iter().all(|b| *b == 0));
        assert!(mapping[3 * page..].iter().all(|b| *b == 2));
    }

    #[test]
    fn pieces_that_would_overlap_or_lie_askew_are_refused() {
        let page_bytes = rustix::param::page_size();
        let page = page_bytes as u64;
        for (at, bytes) in [(0, page), (page + 1, 10), (page, 2 * page)] {
            let pieces = [Piece { file: file_of(&vec![1; page_bytes]), at, bytes }];
            assert!(Mapping::of_pieces(b"head", &pieces).is_err(), "{at} {bytes}");
        }
    }

    #[test]
    fn what_was_read_is_given_back_and_can_be_read_again() {
        let page = rustix::param::page_size();
        let bytes: Vec<u8> = (0..4 * KEEP_BYTES).map(|n: usize| n.to_le_bytes()[1]).collect();
        let size = bytes.len() as u64;
        let at = page as u64;
        let piece = Piece { file: file_of(&bytes), at, bytes: size };
        let mapping = Mapping::of_pieces(b"head", &[piece]).unwrap();
        let sum = || mapping[page..].iter().step_by(page).map(|b| u64::from(*b)).sum::<u64>();
        let process = Process::myself().unwrap();
        let resident = || resident_file_bytes(&process).unwrap();
        let before = resident();
        let (first, again) = Mapping::read_through(&[&mapping], || {
            let first = sum();
            let until = std::time::Instant::now() + 5000 * LOOK_EVERY;
            while resident() > before + 2 * KEEP_BYTES {
                assert!(std::time::Instant::now() < until, "nothing is given back");
                std::thread::sleep(LOOK_EVERY);
            }
            (first, sum())
        });
        assert_eq!(again, first);
        assert_eq!(&mapping[..4], b"head");
        assert!(mapping[page..] == bytes);
    }

    #[test]
    fn an_empty_file_is_an_empty_slice() {
        assert!(Mapping::of_file(&file_of(b"")).unwrap().is_empty());
        assert_eq!(&*Mapping::of_file(&file_of(b"abc")).unwrap(), b"abc");
        assert!(Mapping::of_pieces(b"", &[]).unwrap().is_empty());
    }
}
