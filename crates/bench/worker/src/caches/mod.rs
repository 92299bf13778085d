//! The state of the page cache: brought about, proved before the run, and proved again by what the run read.
//!
//! | state | brought about by | proved before by | proved after by |
//! |---|---|---|---|
//! | any | nothing | – | – |
//! | cold | write back; `posix_fadvise(DONTNEED)` of each file; `drop_caches` where it may be written | at most 1 % of the files' pages are in memory | ≥ 90 % of the files' bytes were read from devices |
//! | hot | reading all of it, and the programs | ≥ 99 % of the pages are in memory | ≤ 1 % of the files' bytes + 1 MiB were read from devices |
//! | displaced | dropping the files, and reading another, sparse file as large as memory | as cold | as cold |
//!
//! "Read from devices" means by the workload's processes, where the kernel keeps an account of that; else by everybody on
//! the machine. The mebibyte is for the file system's own blocks, which writing brings in (bitmaps, tables of inodes); a
//! set of files that is no larger is hot by the proof before the run alone.
//!
//! Not all pages: some machines take pages away all the time, whatever memory is free (a hypervisor or a daemon that
//! reclaims). What went before the run is read again; what goes during it shows in the bytes read.
//!
//! # Why twice
//! `mincore` may be wrong where a file system is a facade of another one, and a device below may have a cache of its
//! own; bytes read from a device are what a cold run costs. Read bytes alone may be another program's.
//!
//! # Constraints
//! - A proof that fails is a [`Refusal`] of kind [`Kind::UnverifiedCache`]: such a run is no run of that state.
//! - For cold and displaced, what is *below* the machine (the host's page cache under a guest's disk) is the platform's
//!   business: `Facts::storage_is_below`.
//! - The workload must read every file that it names in [`transect_bench_workloads::Prepared::files`], by processes that its own
//!   waits for: only then the kernel adds their reads to its account (Linux, kernel/exit.c `wait_task_zombie`).

mod empty;
mod failure;
mod reads;
mod resident;

pub use reads::{Read, Reads};

use failure::failed;
use resident::Extent;
use std::{
    fs::File,
    path::{Path, PathBuf},
};
use transect_bench_core::{CacheProof, CacheState, Fault, Kind, Refusal};

/// One page in so many may be in memory of a cold file set, and missing of a hot one.
const STRAY_SHARE: u64 = 100;
/// How often a hot file set is read again, should pages of it go before the run.
const HOT_TRIES: u32 = 3;
/// What of a hot file set the workload may still read from a device: a hundredth, and this.
const HOT_READ_SLACK_BYTES: u64 = 1 << 20;

/// A job's files, and what their cache state is to be.
#[derive(Debug)]
pub struct Caches {
    asked: CacheState,
    files: Vec<PathBuf>,
    /// Read too for a hot cache; nothing is proved of them.
    programs: Vec<PathBuf>,
    /// What was done, and what could not be.
    did: String,
}

impl Caches {
    /// Brings the files into the state; of the programs only a hot cache wants something.
    ///
    /// `folder` is where the filler of [`CacheState::Displaced`] may be made. Refused where there are no files, and
    /// where they lie on a file system that is nothing but memory.
    pub fn bring(
        asked: CacheState,
        files: Vec<PathBuf>,
        programs: &[PathBuf],
        folder: &Path,
    ) -> Result<Self, Fault> {
        let programs = programs.to_vec();
        let mut caches = Self { asked, files, programs, did: String::new() };
        if asked == CacheState::Any {
            return Ok(caches);
        }
        if caches.files.is_empty() {
            let why = "the workload names no files";
            return Err(Refusal::new(Kind::Senseless, caches.what(), why).into());
        }
        caches.did = match asked {
            CacheState::Any => String::new(),
            CacheState::Hot => caches.read_all()?,
            CacheState::Cold => {
                caches.refuse_memory()?;
                empty::drop_all(&caches.files)?
            }
            CacheState::Displaced => {
                caches.refuse_memory()?;
                let enough = || Ok(is_cold(&caches.extent()?));
                empty::displace(&caches.files, folder, enough)?
            }
        };
        Ok(caches)
    }

    /// What the cache is now: before the run. Refused if it is not what was asked for.
    pub fn before(&self) -> Result<CacheProof, Fault> {
        let mut extent = self.extent()?;
        for _ in 0..HOT_TRIES {
            let is_to_be_read = self.asked == CacheState::Hot && extent.resident_pages.is_some();
            if is_to_be_read && !(is_all(&extent) && self.are_programs_there()?) {
                self.read_all()?;
                extent = self.extent()?;
            }
        }
        let proof = CacheProof {
            asked: self.asked,
            file_bytes: extent.bytes,
            resident_before_bytes: extent.resident_bytes(),
            ..CacheProof::default()
        };
        let Some(pages) = extent.resident_pages.filter(|_| self.asked != CacheState::Any) else {
            return match self.asked {
                CacheState::Any => Ok(proof),
                _ => Err(self.refused(
                    "their file system does not report which of their pages are in memory",
                )),
            };
        };
        let of = format!("{pages} of {} pages in memory before the run", extent.pages);
        let is_so = match self.asked {
            CacheState::Any => true,
            CacheState::Hot => is_hot(&extent),
            CacheState::Cold | CacheState::Displaced => is_cold(&extent),
        };
        if !is_so {
            return Err(self.refused(format!("{of}, after {}", self.did)));
        }
        Ok(CacheProof { why: format!("{}; {of}", self.did), ..proof })
    }

    /// Completes the proof by what was read while it ran. Refused if that is not what was asked for.
    pub fn after(&self, mut proof: CacheProof, read: &Read) -> Result<CacheProof, Fault> {
        proof.read_bytes = read.machine_bytes;
        let why = match self.asked {
            CacheState::Any => return Ok(proof),
            CacheState::Hot => self.stayed_hot(&proof, read)?,
            CacheState::Cold | CacheState::Displaced => self.was_read(read)?,
        };
        proof.why = format!("{}; {why}", proof.why);
        proof.verified = Some(true);
        Ok(proof)
    }

    fn stayed_hot(&self, proof: &CacheProof, read: &Read) -> Result<String, Fault> {
        let most = proof.file_bytes / 100 + HOT_READ_SLACK_BYTES;
        match read.best() {
            Some((bytes, who)) if bytes > most => {
                let why = format!("{who} read {bytes} bytes from devices, at most {most} fit");
                Err(self.refused(why))
            }
            Some((bytes, who)) => Ok(format!("{who} read {bytes} bytes from devices")),
            // No device below, and no account of reads: there is only the residency.
            None => Ok("this machine does not count bytes read from devices".into()),
        }
    }

    fn was_read(&self, read: &Read) -> Result<String, Fault> {
        let least = self.extent()?.stored_bytes / 10 * 9;
        let Some((bytes, who)) = read.best() else {
            return Err(self.refused("this machine does not count bytes read from devices"));
        };
        if bytes < least {
            let why =
                format!("{who} read only {bytes} bytes from devices, of at least {least} to read");
            return Err(self.refused(why));
        }
        Ok(format!("{who} read {bytes} bytes from devices"))
    }

    fn what(&self) -> String {
        format!("{:?} cache", self.asked).to_lowercase()
    }

    fn refused(&self, why: impl Into<String>) -> Fault {
        Refusal::new(Kind::UnverifiedCache, self.what(), why).into()
    }

    fn extent(&self) -> Result<Extent, Fault> {
        resident::look(&self.files)
    }

    /// Of a program that went, what it maps is read from devices while it runs.
    fn are_programs_there(&self) -> Result<bool, Fault> {
        let extent = resident::look(&self.programs)?;
        Ok(extent.resident_pages.is_none() || is_all(&extent))
    }

    fn refuse_memory(&self) -> Result<(), Fault> {
        for file in &self.files {
            if empty::is_memory_only(file)? {
                let why = format!("{} lies on a file system that is memory", file.display());
                return Err(Refusal::new(Kind::UnverifiedCache, self.what(), why)
                    .mend("--folder on a disk")
                    .into());
            }
        }
        Ok(())
    }

    fn read_all(&self) -> Result<String, Fault> {
        let mut buffer = vec![0; 1 << 20];
        for path in self.files.iter().chain(&self.programs) {
            let mut read = || {
                let mut file = File::open(path)?;
                while std::io::Read::read(&mut file, &mut buffer)? > 0 {}
                Ok::<_, std::io::Error>(())
            };
            read().map_err(|error| failed("read", path, &error))?;
        }
        Ok("the whole file set read".into())
    }
}

fn is_cold(extent: &Extent) -> bool {
    extent.resident_pages.is_some_and(|pages| pages * STRAY_SHARE <= extent.pages)
}

fn is_hot(extent: &Extent) -> bool {
    let missing = extent.resident_pages.map(|pages| extent.pages.saturating_sub(pages));
    missing.is_some_and(|pages| pages * STRAY_SHARE <= extent.pages)
}

fn is_all(extent: &Extent) -> bool {
    extent.resident_pages == Some(extent.pages)
}
