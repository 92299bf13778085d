//! How much of files is in the page cache.
#![allow(unsafe_code, reason = "mincore looks at a mapping")]

use super::failure::failed;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::{
    fs::File,
    io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::PathBuf,
    ptr,
};
use transect_bench_core::Fault;

/// What a set of files amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Their sizes.
    pub(super) bytes: u64,
    /// What of that is stored on the device: less in a file with holes.
    pub(super) stored_bytes: u64,
    /// Pages that they have.
    pub(super) pages: u64,
    /// Pages of them in memory; `None` where one of them cannot be mapped.
    pub(super) resident_pages: Option<u64>,
}

impl Extent {
    /// At most so many bytes are in memory; the last page of a file may be only partly its.
    pub(super) fn resident_bytes(&self) -> Option<u64> {
        let page = u64::try_from(rustix::param::page_size()).unwrap_or(u64::MAX);
        self.resident_pages.map(|pages| pages.saturating_mul(page).min(self.bytes))
    }
}

/// Looks at files. Only what this process may write or owns is told (Linux ≥ 5.2, mm/mincore.c `can_do_mincore`);
/// for others the kernel would say that all is there, which a cold cache then does not survive.
pub(super) fn look(files: &[PathBuf]) -> Result<Extent, Fault> {
    let mut all = Extent { resident_pages: Some(0), ..Extent::default() };
    for path in files {
        let one = File::open(path).and_then(|file| of(&file));
        let one = one.map_err(|error| failed("read the page cache state of", path, &error))?;
        all.bytes += one.bytes;
        all.stored_bytes += one.stored_bytes;
        all.pages += one.pages;
        all.resident_pages = all.resident_pages.zip(one.resident_pages).map(|(a, b)| a + b);
    }
    Ok(all)
}

fn of(file: &File) -> io::Result<Extent> {
    let data = file.metadata()?;
    let bytes = usize::try_from(data.len()).map_err(|_| io::Error::other("too large to map"))?;
    let pages = bytes.div_ceil(rustix::param::page_size());
    let resident_pages = match bytes {
        0 => Some(0),
        // Whoever cannot map a file has nothing to look at; that is no failure, it is not knowing.
        bytes => resident(file, bytes, pages).ok(),
    };
    Ok(Extent {
        bytes: data.len(),
        stored_bytes: data.len().min(data.blocks() * 512),
        pages: pages as u64,
        resident_pages,
    })
}

fn resident(file: &File, bytes: usize, pages: usize) -> io::Result<u64> {
    let mut states = vec![0u8; pages];
    // SAFETY: a new mapping at an address of the kernel's choice, of the file's length, never read or written.
    let at = unsafe {
        mmap(ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file.as_fd(), 0)?
    };
    // SAFETY: the mapping made above, and one byte of room for each of its pages.
    let failed = unsafe { libc::mincore(at, bytes, states.as_mut_ptr()) } != 0;
    let error = io::Error::last_os_error();
    // SAFETY: exactly the mapping made above.
    unsafe { munmap(at, bytes)? };
    if failed {
        return Err(error);
    }
    Ok(states.iter().filter(|state| **state & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_in_memory_and_holes_are_not_stored() {
        let folder = tempfile::tempdir().unwrap();
        let (full, sparse, empty) =
            (folder.path().join("full"), folder.path().join("sparse"), folder.path().join("empty"));
        std::fs::write(&full, vec![7; 100_001]).unwrap();
        File::create(&sparse).unwrap().set_len(1 << 20).unwrap();
        File::create(&empty).unwrap();
        let full = look(&[full]).unwrap();
        assert_eq!((full.bytes, full.pages, full.resident_pages), (100_001, 25, Some(25)));
        assert_eq!(full.resident_bytes(), Some(100_001));
        let sparse = look(&[sparse]).unwrap();
        assert_eq!((sparse.stored_bytes, sparse.resident_pages), (0, Some(0)));
        let none = Extent { resident_pages: Some(0), ..Extent::default() };
        assert_eq!(look(&[empty]).unwrap(), none);
    }

    #[test]
    fn a_missing_file_is_named() {
        let fault = look(&["/no/such/file".into()]).unwrap_err();
        assert!(fault.to_string().contains("/no/such/file"), "{fault}");
    }
}
