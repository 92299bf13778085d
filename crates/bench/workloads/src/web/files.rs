//! The file set and the mix of requests for it.
//!
//! The classes, their shares and sizes are SPECweb96's and SPECweb99's (spec.org/osg/web96/workload.html, Tables 1 and
//! 2; the same mix in SPECweb99): 35 % of the requests go to files below 1 KB, 50 % to 1–10 KB, 14 % to 10–100 KB, 1 % to
//! 100 KB–1 MB; nine files a class and directory, 0.1 KB × class × 1…9. Within a class the sizes in the middle are asked
//! for most (SPECweb96 says that accesses within a class are not even; a Poisson around the fifth is our choice), directories by Zipf with exponent 1 (Ruan and Pai, USENIX 2006). The mean answer
//! has 15 KB, a directory 5 MB.

use crate::net::random::{Random, Weighted};
use std::{
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};
use transect_bench_core::Fault;

/// Share of the requests by class.
pub(crate) const CLASS_SHARES: [f64; 4] = [0.35, 0.50, 0.14, 0.01];
/// Files in a class of a directory.
pub(crate) const FILES: u32 = 9;
/// Every file begins with this many bytes that only it has.
pub(crate) const MARK: usize = 16;

/// One file of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct File {
    /// Its directory, from 0; the first one is the most popular.
    pub(crate) directory: u32,
    /// Its class, 0 to 3.
    pub(crate) class: u32,
    /// Which of the nine, 1 to 9.
    pub(crate) index: u32,
}

impl File {
    /// Its size, bytes.
    #[must_use]
    pub(crate) fn bytes(self) -> u64 {
        // 102.4 B, 1 KiB, 10 KiB and 100 KiB times the index.
        1024 * 10u64.pow(self.class) * u64::from(self.index) / 10
    }

    /// Its path below the root, as the server is asked for it.
    #[must_use]
    pub(crate) fn path(self) -> String {
        format!("/dir{:05}/class{}_{}", self.directory, self.class, self.index)
    }

    /// The bytes that it begins with: an answer with another file's is no answer.
    #[must_use]
    pub(crate) fn mark(self) -> [u8; MARK] {
        let mut mark = [0; MARK];
        let number = Random::new(self.number(), 0x6d61_726b).bits();
        for (place, digit) in mark.iter_mut().zip((0..16).map(|i| (number >> (60 - 4 * i)) & 15)) {
            *place = b"0123456789abcdef"[usize::try_from(digit).unwrap_or(0)];
        }
        mark
    }

    fn number(self) -> u64 {
        u64::from(self.directory) << 8 | u64::from(self.class) << 4 | u64::from(self.index)
    }
}

/// Every file of a set.
pub(crate) fn all(directories: u32) -> impl Iterator<Item = File> {
    (0..directories).flat_map(|directory| {
        (0..4).flat_map(move |class| (1..=FILES).map(move |index| File { directory, class, index }))
    })
}

/// Chooses what to ask for.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    directories: Weighted,
    classes: Weighted,
    files: Weighted,
}

impl Mix {
    /// Over that many directories.
    #[must_use]
    pub(crate) fn new(directories: u32) -> Self {
        Self {
            directories: Weighted::zipf(directories),
            classes: Weighted::new(CLASS_SHARES),
            files: Weighted::new((1..=FILES).map(|index| poisson(5.0, index))),
        }
    }

    /// One file.
    pub(crate) fn pick(&self, random: &mut Random) -> File {
        let small = |index: usize| u32::try_from(index).unwrap_or(0);
        File {
            directory: small(self.directories.pick(random)),
            class: small(self.classes.pick(random)),
            index: small(self.files.pick(random)) + 1,
        }
    }
}

/// e^-m m^k / k!
fn poisson(mean: f64, k: u32) -> f64 {
    (1..=k).fold((-mean).exp(), |p, i| p * mean / f64::from(i))
}

/// The root of a set in a folder that outlives jobs; made if it is not there.
pub(crate) fn root(keep: &Path, directories: u32) -> Result<PathBuf, Fault> {
    let root = keep.join(format!("web-1-{directories}"));
    if is_complete(&root, directories) {
        return Ok(root);
    }
    // Several jobs may share the folder: each makes its own, and the first one to be ready is taken.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let draft = keep.join(format!("web-draft-{}-{number}", std::process::id()));
    let made = make(&draft, directories).and_then(|()| take(&draft, &root, directories));
    let result = match made {
        Ok(()) => Ok(root),
        Err(_) if is_complete(&root, directories) => Ok(root),
        Err(e) => Err(Fault::failed(format!("web: file set in {}: {e}", keep.display()))),
    };
    let _ = fs::remove_dir_all(&draft);
    result
}

/// Puts a complete draft in its place, where a damaged set may be.
fn take(draft: &Path, root: &Path, directories: u32) -> std::io::Result<()> {
    if root.exists() && !is_complete(root, directories) {
        fs::remove_dir_all(root)?;
    }
    fs::rename(draft, root)
}

/// It is renamed when complete; the sizes are looked at all the same, for they decide what is measured.
fn is_complete(root: &Path, directories: u32) -> bool {
    all(directories).all(|file| {
        fs::metadata(root.join(&file.path()[1..])).is_ok_and(|found| found.len() == file.bytes())
    })
}

fn make(root: &Path, directories: u32) -> std::io::Result<()> {
    for file in all(directories) {
        let path = root.join(&file.path()[1..]);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        write(&path, file)?;
    }
    Ok(())
}

/// Bytes that do not compress and differ from file to file: a file system below may do either trick.
fn write(path: &Path, file: File) -> std::io::Result<()> {
    let mut to = BufWriter::new(fs::File::create(path)?);
    to.write_all(&file.mark())?;
    let mut random = Random::new(file.number(), 0x6669_6c6c);
    let mut left = usize::try_from(file.bytes()).unwrap_or(0).saturating_sub(MARK);
    while left > 0 {
        let bytes = random.bits().to_le_bytes();
        let now = left.min(bytes.len());
        to.write_all(&bytes[..now])?;
        left -= now;
    }
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_the_published_ones() {
        let size = |class, index| File { directory: 0, class, index }.bytes();
        assert_eq!([size(0, 1), size(0, 2)], [102, 204]);
        assert_eq!([size(1, 1), size(1, 9)], [1024, 9216]);
        assert_eq!([size(2, 1), size(2, 9)], [10_240, 92_160]);
        assert_eq!([size(3, 1), size(3, 9)], [102_400, 921_600]);
        assert_eq!(all(3).count(), 108);
    }

    #[test]
    fn the_mix_is_the_published_one() {
        let mix = Mix::new(4);
        let mut random = Random::new(3, 0);
        let (mut classes, mut total) = ([0u32; 4], 0);
        let draws = 400_000;
        for _ in 0..draws {
            let file = mix.pick(&mut random);
            classes[file.class as usize] += 1;
            total += file.bytes();
        }
        for (count, share) in classes.iter().zip(CLASS_SHARES) {
            assert!((f64::from(*count) / f64::from(draws) - share).abs() < 0.005);
        }
        let mean = total as f64 / f64::from(draws);
        assert!((13_000.0..17_000.0).contains(&mean), "mean answer {mean}");
    }

    #[test]
    fn a_set_is_made_once_and_mended_if_it_is_damaged() {
        let keep = tempfile::tempdir().unwrap();
        let at = root(keep.path(), 1).unwrap();
        let some = File { directory: 0, class: 1, index: 3 };
        let path = at.join(&some.path()[1..]);
        let content = fs::read(&path).unwrap();
        assert_eq!(content[..MARK], some.mark());
        assert_eq!(root(keep.path(), 1).unwrap(), at);
        assert_eq!(fs::read_dir(keep.path()).unwrap().count(), 1, "no draft is left");
        fs::write(&path, "short").unwrap();
        root(keep.path(), 1).unwrap();
        assert_eq!(fs::read(&path).unwrap(), content);
    }
}
