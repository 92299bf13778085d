//! Where an answer goes: standard output, or a file that appears only when it is whole.

use crate::terminal;
use anyhow::{Context as _, ensure};
use std::fs::{File, Permissions};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempPath;
use transect_model::guard::Guard;
use transect_query::output::Format;

const BINARY: &str =
    "the output is a terminal and this format is binary: write to a file (-o FILE) or to a pipe";

/// Set when the first byte of an answer leaves this process to where it stays.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Has any byte of an answer been written to standard output, a pipe or a device?
pub(crate) fn has_begun() -> bool {
    HAS_BEGUN.load(Ordering::Relaxed)
}

/// Notes that it was written to.
struct Noting<W>(W);

impl<W: Write> Write for Noting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        HAS_BEGUN.store(true, Ordering::Relaxed);
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// An output under way. Dropped unfinished, it leaves no file behind.
pub(crate) struct Output {
    to: BufWriter<Box<dyn Write + Send>>,
    /// The file under its temporary name, and the name it is to get.
    named: Option<(TempPath, PathBuf)>,
}

impl Output {
    /// Starts writing rows in a format to `path`, or to standard output for `-`. What is no plain file (a pipe, a
    /// device) is written directly.
    pub(crate) fn create(path: &Path, format: Format) -> anyhow::Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let directly = |to| {
            let to: Box<dyn Write + Send> = Box::new(Noting(to));
            Output { to: BufWriter::new(to), named: None }
        };
        if path.as_os_str() == "-" {
            let is_binary = terminal::syntax(format).is_none();
            ensure!(!is_binary || !io::stdout().is_terminal(), BINARY);
            return Ok(directly(Box::new(terminal::rows(format)) as Box<dyn Write + Send>));
        }
        if path.metadata().is_ok_and(|meta| !meta.is_file()) {
            let file = File::create(path).with_context(cannot)?;
            let syntax = terminal::syntax(format);
            ensure!(syntax.is_some() || !file.is_terminal(), BINARY);
            // The device may be a terminal.
            let syntax = syntax.filter(|_| file.is_terminal());
            return Ok(directly(Box::new(Guard::new(file, syntax))));
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

    /// Leaves out what has not been written yet.
    pub(crate) fn abandon(self) {
        let (to, unwritten) = self.to.into_parts();
        drop((to, unwritten));
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
