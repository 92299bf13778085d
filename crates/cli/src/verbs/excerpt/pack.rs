//! A recording's directory as one file: a tar, which every system opens.

use std::io::{self, Write};
use std::path::Path;

/// Writes the directory `dir` as a tar, as the folder `name` in it.
pub(crate) fn tar<W: Write>(dir: &Path, name: &str, out: W) -> io::Result<W> {
    let mut tar = tar::Builder::new(out);
    // Whose files they were and when is nobody's concern who opens it.
    tar.mode(tar::HeaderMode::Deterministic);
    tar.follow_symlinks(false);
    tar.append_dir_all(name, dir)?;
    tar.into_inner()
}
