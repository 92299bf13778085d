//! Where an answer goes: standard output, or a file that appears only when it is whole.

use anyhow::Context as _;
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// An output under way. Dropped unfinished, it leaves no file behind.
pub(crate) struct Output {
    to: BufWriter<Box<dyn Write + Send>>,
    /// The file under its temporary name, and the name it is to get.
    named: Option<(TempPath, PathBuf)>,
}

impl Output {
    /// Starts writing to `path`, or to standard output for `-`. What is no plain file (a pipe, a
    /// device) is written directly.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let directly = |to| Output { to: BufWriter::new(to), named: None };
        if path.as_os_str() == "-" {
            return Ok(directly(Box::new(io::stdout())));
        }
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            return Ok(directly(Box::new(File::create(path).with_context(cannot)?)));
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // As any file is made: what of it others may do, the umask says.
        let part = tempfile::Builder::new()
            .suffix(".part")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir);
        let (file, part) = part.with_context(cannot)?.into_parts();
        Ok(Output { to: BufWriter::new(Box::new(file)), named: Some((part, path.to_owned())) })
    }

    /// Everything is written: the file gets its name.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        self.to.flush().context("cannot write")?;
        if let Some((part, path)) = self.named {
            part.persist(&path).with_context(|| format!("cannot name {}", path.display()))?;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
