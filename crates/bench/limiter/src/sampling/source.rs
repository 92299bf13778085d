//! A kernel file that is read again and again.

use std::{fs::File, io, os::unix::fs::FileExt, path::Path};

/// An open file of `/proc` or `/sys`, read from its beginning each time.
///
/// Keeping it open saves the path walk, which costs more than the text for most of these files.
#[derive(Debug)]
pub(super) struct Source(File);

impl Source {
    pub(super) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Reads all of it into `buffer`, whose capacity is reused.
    pub(super) fn read<'a>(&self, buffer: &'a mut Vec<u8>) -> io::Result<&'a [u8]> {
        if buffer.len() < 8192 {
            buffer.resize(8192, 0);
        }
        let mut filled = 0;
        loop {
            if filled == buffer.len() {
                buffer.resize(filled * 2, 0);
            }
            let Some(rest) = buffer.get_mut(filled..) else { break };
            match self.0.read_at(rest, filled as u64) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(buffer.get(..filled).unwrap_or_default())
    }
}
