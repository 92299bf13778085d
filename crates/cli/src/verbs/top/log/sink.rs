//! What every kind of log has.

use anyhow::Context as _;
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    path::Path,
};
use transect_live::Snapshot;

/// One kind of log.
pub(super) trait Sink {
    /// A window's rows, and out with them.
    fn write(&mut self, snapshot: &Snapshot) -> anyhow::Result<()>;

    /// No more windows come.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Opens a file of lines to append to. A line that a killed writer left unfinished is ended first.
pub(super) fn append(path: &Path) -> anyhow::Result<File> {
    let open = || -> io::Result<File> {
        let mut file = File::options().create(true).append(true).read(true).open(path)?;
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        if last != [b'\n'] {
            file.write_all(b"\n")?;
        }
        Ok(file)
    };
    open().with_context(|| format!("cannot write {}", path.display()))
}
