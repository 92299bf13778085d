//! Files out of the page cache: dropped, or displaced by another file.

use super::failure::failed;
use rustix::fs::{Advice, fadvise, statfs, sync};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};
use transect_bench_core::{Fault, Kind, Refusal};

/// `TMPFS_MAGIC`, `RAMFS_MAGIC`, `HUGETLBFS_MAGIC` (Linux, include/uapi/linux/magic.h).
const MEMORY_ONLY: [u64; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
/// Where the kernel is told to drop clean pages, directory entries and inodes.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// How often the filler is read before displacing is given up.
const PASSES: u32 = 3;

/// Is a file's file system nothing but its page cache?
pub(super) fn is_memory_only(path: &Path) -> Result<bool, Fault> {
    let kind = statfs(path)
        .map_err(|error| failed("read the file system type of", path, &error.into()))?;
    Ok(u64::try_from(kind.f_type).is_ok_and(|kind| MEMORY_ONLY.contains(&kind)))
}

/// Writes everything back and drops it. Says how.
pub(super) fn drop_all(files: &[PathBuf]) -> Result<String, Fault> {
    // Only clean pages can be dropped.
    sync();
    drop_clean(files)?;
    Ok(match fs::write(DROP_CACHES, "3") {
        Ok(()) => "sync, fadvise and drop_caches".into(),
        Err(error) => {
            format!("sync and fadvise (not drop_caches: {error}; directories may still be cached)")
        }
    })
}

fn drop_clean(files: &[PathBuf]) -> Result<(), Fault> {
    for path in files {
        let drop =
            || fadvise(&File::open(path)?, 0, None, Advice::DontNeed).map_err(io::Error::from);
        drop().map_err(|error| failed("drop the cache of", path, &error))?;
    }
    Ok(())
}

/// Reads a filler until that is enough, as LTTng-Xen's step before each cold test did ("an archiving application runs
/// in order to fill empty buffers ... no reusable content exists in the buffers", section 4). Theirs was an archive;
/// this one is a file of holes, which fills the cache as well and needs no disk. Says how.
///
/// The files are dropped before: what is kept from another machine is accounted to that one's control group (Linux,
/// Documentation/admin-guide/cgroup-v2.rst, "Memory Ownership"), and no filler in this one's would displace it.
pub(super) fn displace(
    files: &[PathBuf],
    folder: &Path,
    is_enough: impl Fn() -> Result<bool, Fault>,
) -> Result<String, Fault> {
    // Dirty pages can neither be dropped nor displaced.
    sync();
    drop_clean(files)?;
    let bytes = transect_bench_core::this_machine::memory_bytes()
        .map_err(|error| Fault::failed(format!("cannot determine the memory size: {error}")))?;
    let filler = tempfile::tempfile_in(folder)
        .map_err(|error| failed("create a file in", folder, &error))?;
    filler.set_len(bytes).map_err(|error| failed("create a filler in", folder, &error))?;
    for pass in 1..=PASSES {
        read_from_start(&filler).map_err(|error| failed("read a filler in", folder, &error))?;
        if is_enough()? {
            return Ok(format!("fadvise, then a filler of {bytes} bytes read {pass} times"));
        }
    }
    let why = format!("a filler of {bytes} bytes, read {PASSES} times, did not displace the files");
    Err(Refusal::new(Kind::UnverifiedCache, "displaced cache", why).into())
}

fn read_from_start(mut filler: &File) -> io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    io::Seek::rewind(&mut filler)?;
    while filler.read(&mut buffer)? > 0 {}
    Ok(())
}
