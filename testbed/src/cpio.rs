//! Writer of "newc" cpio archives, the format of initramfs images
//! (Linux `Documentation/driver-api/early-userspace/buffer-format.rst`).
//!
//! Archives may be concatenated: that is how a guest's own files are added to a cached base image.

use std::fs::{self, DirEntry};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive being written; paths are relative to the root, without a leading slash.
#[derive(Default)]
pub(crate) struct Cpio {
    bytes: Vec<u8>,
    entries: u32,
}

impl Cpio {
    /// Adds a folder; its parent must be there already.
    pub(crate) fn folder(&mut self, path: &str) -> Result<()> {
        self.entry(path, FOLDER, &[])
    }

    /// Adds a plain file.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) -> Result<()> {
        self.entry(path, FILE, content)
    }

    /// Adds an executable read from `from`.
    pub(crate) fn program(&mut self, path: &str, from: &Path) -> Result<()> {
        let content = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.entry(path, PROGRAM, &content)
    }

    /// Adds an executable with the given text.
    pub(crate) fn script(&mut self, path: &str, text: &str) -> Result<()> {
        self.entry(path, PROGRAM, text.as_bytes())
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> Result<()> {
        self.entry(path, LINK, target.as_bytes())
    }

    /// Adds a folder of this machine with all that is in it, as `path`.
    pub(crate) fn tree(&mut self, path: &str, from: &Path) -> Result<()> {
        self.folder(path)?;
        let within = || format!("while reading {}", from.display());
        let mut entries = fs::read_dir(from)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(within)?;
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let to = format!("{path}/{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().with_context(within)?;
            if kind.is_dir() {
                self.tree(&to, &entry.path())?;
            } else if kind.is_symlink() {
                let target = fs::read_link(entry.path()).with_context(within)?;
                self.link(&to, &target.to_string_lossy())?;
            } else if entry.metadata().with_context(within)?.permissions().mode() & 0o111 != 0 {
                self.program(&to, &entry.path())?;
            } else {
                self.file(&to, &fs::read(entry.path()).with_context(within)?)?;
            }
        }
        Ok(())
    }

    /// The finished archive.
    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.bytes)
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<()> {
        self.entries += 1;
        let size = u32::try_from(content.len())
            .with_context(|| format!("{path} is too large for cpio"))?;
        let name_size = u32::try_from(path.len() + 1).context("path too long for cpio")?;
        let links = 1;
        let fields = [self.entries, mode, 0, 0, links, 0, size, 0, 0, 0, 0, name_size, 0]
            .map(|f| format!("{f:08X}"));
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend_from_slice(fields.concat().as_bytes());
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;

    /// The peer is cpio(1): what it lists and extracts is what was written.
    #[test]
    fn cpio_reads_what_was_written() {
        let mut archive = Cpio::default();
        archive.folder("etc").unwrap();
        archive.file("etc/odd", b"12345").unwrap();
        archive.script("init", "#!/bin/sh\n").unwrap();
        archive.link("sh", "init").unwrap();
        let here = tempfile::tempdir().unwrap();
        std::fs::create_dir(here.path().join("in")).unwrap();
        std::fs::write(here.path().join("in/plain"), "p").unwrap();
        std::os::unix::fs::symlink("plain", here.path().join("in/link")).unwrap();
        archive.tree("all", here.path()).unwrap();
        let bytes = archive.finish().unwrap();

        let into = tempfile::tempdir().unwrap();
        let mut cpio = Command::new("cpio")
            .args(["-i", "-v", "--quiet"])
            .current_dir(into.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        cpio.stdin.take().unwrap().write_all(&bytes).unwrap();
        assert!(cpio.wait().unwrap().success());
        assert_eq!(std::fs::read(into.path().join("etc/odd")).unwrap(), b"12345");
        assert_eq!(std::fs::read_link(into.path().join("sh")).unwrap(), Path::new("init"));
        assert_eq!(std::fs::read_to_string(into.path().join("all/in/link")).unwrap(), "p");
        assert_eq!(std::fs::read_to_string(into.path().join("init")).unwrap(), "#!/bin/sh\n");
    }
}
