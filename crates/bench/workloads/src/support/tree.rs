//! A tree of text files like a kernel's sources: made here, the same everywhere, from no download.
//!
//! LTTng-Xen archived and compressed the sources of Linux 2.6.16: 200 MB in about 19,000 files, so 10.5 KB a file. Of
//! that this tree has the mean size, a spread of sizes (most files small, a few ten times the mean), sixteen files a
//! folder, and about the compressibility of C. It is no kernel: names, identifiers and depth are made up.

use super::random::Random;
use std::{
    fs, io,
    path::{Path, PathBuf},
};
use transect_bench_core::Fault;

/// Files in one folder.
const IN_FOLDER: u64 = 16;
/// Changes when what is made changes, so that what an older program kept is not taken for it.
const VERSION: u32 = 1;
/// What C is made of.
const WORDS: [&str; 48] = [
    "static",
    "int",
    "struct",
    "return",
    "if",
    "(",
    ")",
    "{",
    "}",
    ";",
    "unsigned",
    "long",
    "void",
    "const",
    "char",
    "*",
    "->",
    "=",
    "==",
    "!=",
    "goto",
    "out",
    "err",
    "NULL",
    "0",
    "1",
    "flags",
    "spin_lock",
    "spin_unlock",
    "list",
    "head",
    "next",
    "dev",
    "page",
    "inode",
    "size",
    "offset",
    "buffer",
    "for",
    "while",
    "else",
    "break",
    "case",
    "switch",
    "sizeof",
    "u32",
    "u64",
    "data",
];

/// Text of about so many bytes.
pub(crate) fn text(random: &mut Random, bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 32);
    let mut in_line = 0;
    while text.len() < bytes {
        match random.below(6) {
            // Names are what does not repeat.
            0 => text.push_str(&format!("v{:x}", random.below(1 << 14))),
            _ => text.push_str(random.pick(&WORDS)),
        }
        in_line += 1;
        let is_end = in_line > 4 && random.below(4) == 0;
        text.push_str(if is_end { "\n\t" } else { " " });
        in_line = if is_end { 0 } else { in_line };
    }
    text.push('\n');
    text
}

/// The tree of so many files, made in `keep` if it is not there yet.
pub(crate) fn kept(keep: &Path, files: u64) -> Result<PathBuf, Fault> {
    kept_as(keep, &format!("tree-{VERSION}-{files}"), |folder| {
        let mut random = Random(files);
        for file in 0..files {
            let inside = folder.join(format!("part{:04}", file / IN_FOLDER));
            fs::create_dir_all(&inside)?;
            let bytes = file_bytes(&mut random);
            let text = text(&mut Random(random.next()), bytes);
            fs::write(inside.join(format!("file{file:05}.c")), text)?;
        }
        Ok(())
    })
}

/// Most 2 to 12 KB, one in sixteen 40 to 80 KB: 10.5 KB in the mean.
fn file_bytes(random: &mut Random) -> usize {
    let bytes = match random.below(16) {
        0 => 40_000 + random.below(40_000),
        _ => 2_000 + random.below(9_200) + random.below(1_200),
    };
    usize::try_from(bytes).unwrap_or(0)
}

/// A folder in `keep` that is made once: whole, written to the disk, then renamed to its name.
pub(crate) fn kept_as(
    keep: &Path,
    name: &str,
    make: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<PathBuf, Fault> {
    let path = keep.join(name);
    let made = || {
        if path.is_dir() {
            return Ok(());
        }
        let folder = tempfile::Builder::new().prefix("making-").tempdir_in(keep)?;
        let inside = folder.path().join("whole");
        fs::create_dir(&inside)?;
        make(&inside)?;
        rustix::fs::syncfs(fs::File::open(&inside)?)?;
        match fs::rename(&inside, &path) {
            // Another worker was faster, and made the same.
            Err(_) if path.is_dir() => Ok(()),
            other => other,
        }
    };
    made().map_err(|error: io::Error| {
        Fault::failed(format!("cannot make {}: {error}", path.display()))
    })?;
    Ok(path)
}

/// Every file below a folder, sorted.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Fault> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries
            .map_err(|error| Fault::failed(format!("cannot list {}: {error}", folder.display())))?;
        for entry in entries {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder { &mut folders } else { &mut files }.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

/// The sum of files' sizes.
pub(crate) fn bytes(files: &[PathBuf]) -> Result<u64, Fault> {
    let size = |path: &PathBuf| fs::metadata(path).map(|data| data.len());
    let sizes: io::Result<Vec<u64>> = files.iter().map(size).collect();
    Ok(sizes
        .map_err(|error| Fault::failed(format!("cannot read the attributes of a file: {error}")))?
        .iter()
        .sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_the_same_every_time_and_as_large_as_said() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let read = |keep: &Path| -> Vec<Vec<u8>> {
            let tree = kept(keep, 400).unwrap();
            files(&tree).unwrap().iter().map(|path| fs::read(path).unwrap()).collect()
        };
        let all = read(one.path());
        assert!(all == read(other.path()));
        assert_eq!(all.len(), 400);
        let mean = all.iter().map(Vec::len).sum::<usize>() / 400;
        assert!((9_000..12_000).contains(&mean), "{mean}");
        assert!(all[0] != all[1]);
        // Made once: what is kept is taken.
        let tree = kept(one.path(), 400).unwrap();
        fs::write(tree.join("mark"), "").unwrap();
        assert!(kept(one.path(), 400).unwrap().join("mark").exists());
    }
}
